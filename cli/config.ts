import { loadConfig } from "#lib/config/load.ts";
import type { CliContext, ConfigFlags } from "#lib/process/context.ts";
import { configSections } from "./added-by-extras.ts";

interface PrintConfigFlags extends ConfigFlags {
  /** Settings of the file that this release does not know are ignored, as the components do, instead of refused. */
  readonly ignoreUnknown?: boolean;
}

/**
 * Prints the configuration as a component reads it from file, environment and flags, with warnings for what it ignores.
 */
export async function printConfig(flags: PrintConfigFlags, { env, stdout }: CliContext): Promise<void> {
  const loaded = await loadConfig({
    file: flags.config,
    env,
    set: flags.set ?? [],
    sections: await configSections(),
    unknown: flags.ignoreUnknown === true ? "warn" : "refuse",
  });
  stdout.write(`${JSON.stringify(loaded, undefined, 2)}\n`);
}
