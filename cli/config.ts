import { loadConfig } from "../config/load.ts";
import type { CliContext } from "./context.ts";
import type { ServeFlags } from "./serve.ts";

/** Prints the configuration as a component reads it from file, environment and flags, with warnings for what it ignores. */
export function printConfig(flags: ServeFlags, { env, stdout }: CliContext): void {
  const loaded = loadConfig({ file: flags.config, env, set: flags.set ?? [] });
  stdout.write(`${JSON.stringify(loaded, undefined, 2)}\n`);
}
