import { loadConfig } from "#lib/config/load.ts";
import type { CliContext, ConfigFlags } from "#lib/process/context.ts";
import { configSections } from "./extras.ts";

interface PrintConfigFlags extends ConfigFlags {
  /** Ignores settings of the file that this release does not know, as the components do, instead of refusing them. */
  readonly ignoreUnknown?: boolean;
}

/**
 * Prints the configuration that a component reads from file and flags, with a warning for each ignored
 * setting.
 */
export async function printConfig(flags: PrintConfigFlags, { stdout }: CliContext): Promise<void> {
  const loaded = await loadConfig({
    file: flags.config,
    set: flags.set ?? [],
    sections: await configSections(),
    unknown: flags.ignoreUnknown === true ? "warn" : "refuse",
  });
  stdout.write(`${JSON.stringify(loaded, undefined, 2)}\n`);
}
