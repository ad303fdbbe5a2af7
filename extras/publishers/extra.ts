import { Argument } from "commander";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { Extra } from "../extension-points.ts";
import { PUBLISHERS } from "./names.ts";

/** `requestTimeout` -> `--request-timeout` */
function optionOf(key: string): string {
  return `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

export const publishers: Extra = {
  addCommands({ addComponent, addConnection, serve, readConfig, context, agree }) {
    const command = addComponent("publish", "publish coredns --config switchback.yaml", "publish coredns --remove")
      .description(
        "run a publisher, which gives the names to readers other than opted-in pods, such as the cluster's DNS",
      )
      .addArgument(new Argument("<publisher>", "what it publishes to").choices(PUBLISHERS))
      .option("--remove", "take out what the publisher has written, and exit; required for the options below")
      .option("--yes", "skip the confirmation prompt");
    addConnection(command).action(async (name, { remove, config, set, ...flags }) => {
      const start = async () => await import("./start.ts");
      if (remove) {
        const { removeOnePublisher } = await start();
        return await removeOnePublisher(name, await readConfig({ config, set }), flags, { context, agree });
      }
      // A running publisher gets the cluster from its environment, not from these options.
      const [other] = Object.keys(flags);
      if (other !== undefined)
        throw new SwitchbackError("input-invalid", `${optionOf(other)} is only valid with --remove`);
      await serve("publisher", async () => (await start()).publisherStarter(name), { config, set });
    });
  },
  configSections: async () => [(await import("./config.ts")).PUBLISHERS_SECTION],
  chartValues: async () => [(await import("./chart/values.ts")).PUBLISHERS_VALUES],
  checks: async () => [(await import("./check.ts")).PUBLISHERS_CHECK],
  uninstall: async () => (await import("./leave.ts")).PUBLISHERS_UNINSTALL,
};
