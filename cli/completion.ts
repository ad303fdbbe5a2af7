import { readdirSync } from "node:fs";
import tab from "@bomb.sh/tab";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { CommandFile } from "./command.ts";

const NAME = "switchback";
const SHELLS = ["bash", "zsh", "fish", "powershell"] as const;

/** `switchback completion SHELL`: prints a script, which calls `switchback complete` for each completion. */
export const completion: CommandFile = {
  define(command, { context }) {
    command
      .addArgument(command.createArgument("<shell>", "the shell that reads it").choices(SHELLS))
      .action((shell) => context.stdout.write(scriptFor(shell)));
  },
};

/** The library prints its script. That for bash declares constants, so it could not be sourced twice. */
function scriptFor(shell: string): string {
  const { log } = console;
  let script = "";
  console.log = (text: string) => {
    script = `${text}\n`;
  };
  tab.setup(NAME, NAME, shell);
  console.log = log;
  return script.replaceAll(/^readonly (\w+)=(\d+)$/gm, (_line, name, value) => `: "\${${name}:=${value}}"`);
}

/** `switchback complete -- WORDS`: prints the commands, options and values that complete the last word. */
export const complete: CommandFile = {
  define(command) {
    command.argument("[words...]").action((words) => {
      const word = words.at(-1) ?? "";
      for (const each of command.parent?.createHelp().visibleCommands(command.parent) ?? []) addCommand(each, word);
      tab.parse([...words]);
    });
  },
};

function addCommand(command: CommandUnknownOpts, word: string): void {
  const known = tab.command(command.name(), command.description());
  const offer = (values: readonly string[] | undefined, what: string) => (found: Found) => {
    for (const value of values ?? filesOf(what, word)) found(value, "");
  };
  for (const { long, short, description, argChoices, required, flags } of command
    .createHelp()
    .visibleOptions(command)) {
    const letter = short?.slice(1);
    const name = long?.slice(2) ?? "";
    if (required) known.option(name, description, offer(argChoices, flags), letter);
    else known.option(name, description, letter);
  }
  for (const argument of command.registeredArguments) {
    known.argument(argument.name(), offer(argument.argChoices, argument.name()), argument.variadic);
  }
}

type Found = (value: string, description: string) => void;

/** The files and folders whose paths begin with `word`, if `what` names files. The library never lets a shell do it. */
function filesOf(what: string, word: string): string[] {
  const folder = word.slice(0, word.lastIndexOf("/") + 1);
  if (!/\b(files?|directory)\b/.test(what)) return [];
  try {
    const entries = readdirSync(folder || ".", { withFileTypes: true });
    return entries.map((entry) => `${folder}${entry.name}${entry.isDirectory() ? "/" : ""}`);
  } catch {
    return [];
  }
}
