import type { Command } from "@commander-js/extra-typings";
import { PUBLISHERS } from "#extras/publishers/names.ts";
import { agree } from "./ask.ts";
import { configOptions, connectionOptions, type Definition } from "./command.ts";
import { readConfig, serve } from "./serve.ts";

/** Defines `switchback publish`. */
export function define(command: Command, { context }: Definition): void {
  const options = configOptions(command)
    .option("--remove", "take out what the publisher has written, and exit")
    .option("--yes", "skip the confirmation prompt of --remove");
  connectionOptions(options)
    .addArgument(command.createArgument("<publisher>", "what it publishes to").choices(PUBLISHERS))
    .action(async (name, flags) => {
      const start = async () => await import("#extras/publishers/start.ts");
      if (flags.remove) {
        const { config } = await readConfig(flags);
        return await (await start()).removeOnePublisher(name, config, flags, context, agree);
      }
      await serve("publisher", async () => (await start()).publisherStarter(name), flags, context);
    });
}
