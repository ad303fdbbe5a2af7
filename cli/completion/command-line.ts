import type { Command, Option } from "commander";

/** Kinds of values that a shell gets from this program while the user types: `switchback complete contexts`. */
const ASKED = ["contexts", "namespaces", "names"] as const;
export type Asked = (typeof ASKED)[number];

/**
 * What follows an option or a command: one of several words, a value that the shell gets from this program, a path,
 * any value, or nothing.
 */
export type Value = { readonly words: readonly string[] } | Asked | "path" | "any" | "none";

/** Options whose values the shell gets from this program. */
const ASKED_OPTIONS: Readonly<Record<string, Asked>> = {
  "--context": "contexts",
  "--namespace": "namespaces",
  "--probe-namespace": "namespaces",
  "--in": "namespaces",
  "--name": "names",
};

/** Whether the shell gets such values from this program. */
export function isAsked(value: Value): value is Asked {
  return ASKED.some((each) => each === value);
}

interface OptionWords {
  /** `-o` and `--output`, or only one of them. */
  readonly flags: readonly string[];
  readonly description: string;
  readonly value: Value;
}

interface CommandWords {
  readonly name: string;
  readonly description: string;
  readonly options: readonly OptionWords[];
  readonly argument: Value;
}

/** The words that a shell can complete. Hidden commands are left out, as in the help. */
export interface CommandLine {
  readonly name: string;
  readonly options: readonly OptionWords[];
  readonly commands: readonly CommandWords[];
}

/** Reads the tree of commands. */
export function commandLineOf(root: Command): CommandLine {
  const help = root.createHelp();
  const commands = help.visibleCommands(root).map((command) => ({
    name: command.name(),
    description: command.description(),
    options: optionsOf(command),
    argument: command.name() === "help" ? { words: namesOf(root) } : argumentOf(command),
  }));
  return { name: root.name(), options: optionsOf(root), commands };
}

function namesOf(root: Command): string[] {
  return root
    .createHelp()
    .visibleCommands(root)
    .map((command) => command.name());
}

function optionsOf(command: Command): OptionWords[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .map((option) => ({
      flags: [option.short, option.long].filter((flag) => flag !== undefined && flag !== null),
      description: option.description,
      value: valueAfter(option),
    }));
}

function valueAfter({ argChoices, flags, long, required, optional }: Option): Value {
  if (argChoices !== undefined) return { words: argChoices };
  if (!required && !optional) return "none";
  return ASKED_OPTIONS[long ?? ""] ?? (isPath(flags) ? "path" : "any");
}

function argumentOf(command: Command): Value {
  const [argument] = command.registeredArguments;
  if (argument === undefined) return "none";
  if (argument.argChoices !== undefined) return { words: argument.argChoices };
  if (argument.name().startsWith("namespace")) return "namespaces";
  return isPath(argument.name()) ? "path" : "any";
}

function isPath(text: string): boolean {
  return /\b(files?|directory)\b/.test(text);
}
