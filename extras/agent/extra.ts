import type { Extra } from "../extension-points.ts";

export const agent: Extra = {
  addCommands({ addComponent, serve }) {
    addComponent("agent", "agent --config switchback.yaml")
      .description("run the agent: keeps the hosts files of one node's running pods current (as root, on that node)")
      .action(async (flags) => serve("agent", async () => (await import("./start.ts")).startAgent, flags));
  },
  configSections: async () => (await import("./config.ts")).AGENT_SECTIONS,
  chartValues: async () => [(await import("./chart/values.ts")).AGENT_VALUES],
  checks: async () => [(await import("./check.ts")).AGENT_CHECK],
  uninstall: async () => (await import("./leave.ts")).AGENT_UNINSTALL,
};
