import type { Command } from "@commander-js/extra-typings";
import { loadConfig } from "#lib/config/load.ts";
import { type Definition, notEmpty } from "./command.ts";
import { configSections } from "./extras.ts";

/**
 * Defines `switchback config`. It prints the configuration that a component reads from file and flags, with a warning
 * for each ignored setting.
 */
export function define(command: Command, { context }: Definition): void {
  command
    .option("--config <file>", "configuration file (YAML)", notEmpty)
    .option("--set <path=value...>", "override one setting, such as log.level=debug")
    .option(
      "--ignore-unknown",
      "warn about settings of the file that are unknown, as the components do; default: refuse",
    )
    .action(async ({ config, set, ignoreUnknown }) => {
      const loaded = await loadConfig({
        file: config,
        set: set ?? [],
        sections: await configSections(),
        unknown: ignoreUnknown === true ? "warn" : "refuse",
      });
      context.stdout.write(`${JSON.stringify(loaded, undefined, 2)}\n`);
    });
}
