import { type CommandLine, isAsked, type Value } from "./command-line.ts";

/** A completion script for zsh. Source it after compinit, or save it as the file `_switchback` in the fpath. */
export function zshCompletion({ name, options, commands }: CommandLine): string {
  const described = commands.map((command) => `    ${quote(`${command.name}:${command.description}`)}\n`);
  const cases = commands.map((command) => {
    const specs = [...command.options.map(optionSpec), ...argumentSpec(command.argument)];
    return `    ${command.name}) _arguments -s ${specs.join(" ")} ;;\n`;
  });
  return `#compdef ${name}
# zsh completion for ${name}: source <(${name} completion zsh)
_${name}_asked() {
  local -a found
  found=("\${(@f)$(${name} complete "$1" -- "$PREFIX" "\${words[@]}" 2>/dev/null)}")
  [[ -n "$found" ]] && compadd -a found
}
_${name}() {
  local -a commands
  commands=(
${described.join("")}  )
  if (( CURRENT == 2 )); then
    if [[ "$PREFIX" == -* ]]; then
      _arguments ${options.map(optionSpec).join(" ")}
    else
      _describe command commands
    fi
    return
  fi
  local command="\${words[2]}"
  shift words
  (( CURRENT-- ))
  case "$command" in
${cases.join("")}  esac
}
if [ "$funcstack[1]" = "_${name}" ]; then
  _${name} "$@"
else
  compdef _${name} ${name}
fi
`;
}

/** `'(-o --output)'{-o,--output}'[output format]:value:(text json)'` */
function optionSpec({ flags, description, value }: CommandLine["options"][number]): string {
  const text = quote(`[${escaped(description)}]${value === "none" ? "" : `:value:${action(value)}`}`);
  if (flags.length === 1) return `${flags[0]}${text}`;
  return `${quote(`(${flags.join(" ")})`)}{${flags.join(",")}}${text}`;
}

function argumentSpec(value: Value): string[] {
  return value === "none" ? [] : [quote(`1:argument:${action(value)}`)];
}

function action(value: Value): string {
  if (typeof value === "object") return `(${value.words.join(" ")})`;
  // The space stops _arguments from passing options of compadd to the function, which takes none.
  if (isAsked(value)) return ` _switchback_asked ${value}`;
  return value === "path" ? "_files" : " ";
}

/** Escapes the characters that end a description in a spec of _arguments. */
function escaped(text: string): string {
  return text.replace(/[\][:\\]/g, "\\$&");
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
