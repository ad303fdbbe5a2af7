import { Argument } from "commander";
import type { Extra } from "../extra.ts";
import { PUBLISHERS } from "./names.ts";

export const publishers: Extra = {
  name: "publishers",
  addCommands({ addComponent, serve, readConfig, context }) {
    addComponent("publish", "publish coredns --config switchback.yaml", "publish coredns --remove")
      .description("run a publisher: gives the names to others than pods that opted in, such as the cluster's DNS")
      .addArgument(new Argument("<publisher>", "what it publishes to").choices(PUBLISHERS))
      .option("--remove", "take out what the publisher has written, and exit")
      .action(async (name, { remove, ...flags }) => {
        const start = async () => await import("./start.ts");
        if (!remove) return await serve("publisher", async () => (await start()).publisherStarter(name), flags);
        const { removeOnePublisher } = await start();
        await removeOnePublisher(name, await readConfig(flags), context);
      });
  },
  configSections: async () => [(await import("./config.ts")).PUBLISHERS_SECTION],
  chartValues: async () => [(await import("./chart/values.ts")).PUBLISHERS_VALUES],
  checks: async () => [(await import("./check.ts")).PUBLISHERS_CHECK],
  uninstall: async () => (await import("./leave.ts")).PUBLISHERS_UNINSTALL,
  readStatus: async (...args) => await (await import("./status.ts")).publishersStatus(...args),
};
