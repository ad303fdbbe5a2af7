import type { Command } from "commander";
import type { CliContext } from "#lib/process/context.ts";
import { bashCompletion } from "./completion/bash.ts";
import { commandLineOf } from "./completion/command-line.ts";
import { fishCompletion } from "./completion/fish.ts";
import { zshCompletion } from "./completion/zsh.ts";
import type { SHELLS } from "./options.ts";

const SCRIPTS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion } as const;

/** Prints a script that completes the commands and options of `root` in a shell. */
export function completion(shell: (typeof SHELLS)[number], root: Command, { stdout }: CliContext): void {
  stdout.write(SCRIPTS[shell](commandLineOf(root)));
}
