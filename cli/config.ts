import type { Command } from "@commander-js/extra-typings";
import { configOptions, type Definition } from "./command.ts";
import { readConfig } from "./serve.ts";

/**
 * Defines `switchback config`. It prints the configuration that a component reads from file and flags, with a warning
 * for each ignored setting.
 */
export function define(command: Command, { context }: Definition): void {
  configOptions(command)
    .option("--ignore-unknown", "warn about unknown settings of the file, as the components do; default: refuse")
    .action(async ({ ignoreUnknown, ...flags }) => {
      const loaded = await readConfig(flags, ignoreUnknown ? "warn" : "refuse");
      context.stdout.write(`${JSON.stringify(loaded, undefined, 2)}\n`);
    });
}
