import type { Command } from "@commander-js/extra-typings";
import { PUBLISHERS } from "#extras/publishers/names.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { agree } from "./ask.ts";
import { configOptions, connectionOptions, type Definition } from "./command.ts";
import { readConfig, serve } from "./serve.ts";

/** Defines `switchback publish`. */
export function define(command: Command, { context }: Definition): void {
  const options = configOptions(command)
    .option("--remove", "take out what the publisher has written, and exit; required for the options below")
    .option("--yes", "skip the confirmation prompt");
  connectionOptions(options)
    .addArgument(command.createArgument("<publisher>", "what it publishes to").choices(PUBLISHERS))
    .action(async (name, { remove, config, set, ...flags }) => {
      const start = async () => await import("#extras/publishers/start.ts");
      if (remove) {
        const { config: settings } = await readConfig({ config, set });
        return await (await start()).removeOnePublisher(name, settings, flags, context, agree);
      }
      // A running publisher gets the cluster from its environment, not from these options.
      const [other] = Object.keys(flags);
      if (other !== undefined)
        throw new SwitchbackError("input-invalid", `${optionOf(other)} is only valid with --remove`);
      await serve("publisher", async () => (await start()).publisherStarter(name), { config, set }, context);
    });
}

/** `requestTimeout` -> `--request-timeout` */
function optionOf(key: string): string {
  return `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
