import type { Command } from "@commander-js/extra-typings";
import { configOptions, type Definition } from "./command.ts";
import { readConfig } from "./serve.ts";

/** Defines `switchback config`. It prints the configuration that a component reads from file and flags. */
export function define(command: Command, { context }: Definition): void {
  configOptions(command).action(async (flags) => {
    const loaded = await readConfig(flags, "refuse");
    context.stdout.write(`${JSON.stringify(loaded, undefined, 2)}\n`);
  });
}
