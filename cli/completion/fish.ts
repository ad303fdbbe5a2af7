import { type CommandLine, isAsked, type Value } from "./command-line.ts";

/** A completion script for fish 3 and later. */
export function fishCompletion({ name, options, commands }: CommandLine): string {
  const line = (...parts: string[]) => `complete -c ${name} ${parts.filter((part) => part !== "").join(" ")}\n`;
  const first = "-n __fish_use_subcommand";
  return [
    `# fish completion for ${name}: ${name} completion fish | source\n`,
    line("-f"),
    ...options.map((option) => line(first, ...optionParts(option))),
    ...commands.map((command) => line(first, "-a", command.name, "-d", quote(command.description))),
    ...commands.flatMap((command) => {
      const inside = `-n '__fish_seen_subcommand_from ${command.name}'`;
      const argument = command.argument === "none" ? [] : [line(inside, valueParts(command.argument))];
      return [...argument, ...command.options.map((option) => line(inside, ...optionParts(option)))];
    }),
  ].join("");
}

function optionParts({ flags, description, value }: CommandLine["options"][number]): string[] {
  const names = flags.map((flag) => (flag.startsWith("--") ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`));
  const required = value === "none" ? "" : value === "path" ? "-r" : "-x";
  return [...names, required, value === "none" ? "" : valueParts(value), "-d", quote(description)];
}

function valueParts(value: Value): string {
  if (typeof value === "object") return `-a ${quote(value.words.join(" "))}`;
  // The program gets the words as typed, and fish does not expand the answer.
  if (isAsked(value)) return `-a '(switchback complete ${value} -- (commandline -ct) (commandline -opc) 2>/dev/null)'`;
  return value === "path" ? "-F" : "";
}

function quote(text: string): string {
  return `'${text.replace(/['\\]/g, "\\$&")}'`;
}
