import { type CommandLine, isAsked, type Value } from "./command-line.ts";

/** A completion script for bash 3.2 and later. */
export function bashCompletion({ name, options, commands }: CommandLine): string {
  const flagsOf = (all: CommandLine["options"]) => all.flatMap(({ flags }) => flags).join(" ");
  const values = commands.flatMap((command) =>
    command.options
      .filter(({ value }) => value !== "none")
      .map(
        ({ flags, value }) =>
          `    ${flags.map((flag) => `${command.name}:${flag}`).join("|")}) ${reply(value)}; return ;;\n`,
      ),
  );
  const words = commands.map(
    (command) => `    ${command.name})
      case "$cur" in
        -*) COMPREPLY=($(compgen -W "${flagsOf(command.options)}" -- "$cur")) ;;
        *) ${reply(command.argument)} ;;
      esac ;;
`,
  );
  return `# bash completion for ${name}: source <(${name} completion bash)
# What the program answers is never expanded. Bash replaces what follows the last colon of a word.
_${name}_asked() {
  local found word prefix
  local -a words
  read -ra words <<< "\${COMP_LINE:0:$COMP_POINT}"
  word="\${COMP_LINE:0:$COMP_POINT}"
  word="\${word##* }"
  word="\${word#--*=}"
  prefix="\${word%"\${word##*:}"}"
  [[ "$COMP_WORDBREAKS" == *:* ]] || prefix=""
  while IFS= read -r found; do
    COMPREPLY+=("\${found#"$prefix"}")
  done < <(${name} complete "$1" -- "$word" "\${words[@]}" 2>/dev/null)
}
_${name}() {
  local cur prev command i
  COMPREPLY=()
  cur="\${COMP_WORDS[COMP_CWORD]}"
  # --output=json is three words, and so is a:b.
  i=$COMP_CWORD
  while [[ $i -gt 1 && ( "\${COMP_WORDS[i]}" == : || "\${COMP_WORDS[i-1]}" == : ) ]]; do i=$((i - 1)); done
  prev="\${COMP_WORDS[i-1]}"
  if [[ "$prev" == = ]]; then prev="\${COMP_WORDS[i-2]}"; fi
  if [[ "$cur" == = ]]; then cur=""; fi
  command=""
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in
      -*) ;;
      *) command="\${COMP_WORDS[i]}"; break ;;
    esac
  done
  case "$command:$prev" in
${values.join("")}  esac
  case "$command" in
    "")
      case "$cur" in
        -*) COMPREPLY=($(compgen -W "${flagsOf(options)}" -- "$cur")) ;;
        *) COMPREPLY=($(compgen -W "${commands.map((command) => command.name).join(" ")}" -- "$cur")) ;;
      esac ;;
${words.join("")}  esac
}
complete -F _${name} ${name}
`;
}

function reply(value: Value): string {
  if (typeof value === "object") return `COMPREPLY=($(compgen -W "${value.words.join(" ")}" -- "$cur"))`;
  if (isAsked(value)) return `_switchback_asked ${value}`;
  // Bash escapes spaces in paths if it has compopt (4.0).
  if (value === "path") return "compopt -o filenames 2>/dev/null; COMPREPLY=($(IFS=$'\\n'; compgen -f -- \"$cur\"))";
  return ":";
}
