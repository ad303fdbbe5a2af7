import type { CommandLine, Value } from "./command-line.ts";

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
_${name}() {
  local cur prev command i
  COMPREPLY=()
  cur="\${COMP_WORDS[COMP_CWORD]}"
  prev="\${COMP_WORDS[COMP_CWORD-1]}"
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
  // Spaces in paths are escaped where bash has compopt (4.0).
  if (value === "path") return "compopt -o filenames 2>/dev/null; COMPREPLY=($(IFS=$'\\n'; compgen -f -- \"$cur\"))";
  return ":";
}
