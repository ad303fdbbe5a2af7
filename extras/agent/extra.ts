import type { Extra } from "../extra.ts";

export const agent: Extra = {
  name: "agent",
  addCommands({ addComponent, serve }) {
    addComponent("agent")
      .description("run the agent: keeps the hosts files of one node's running pods current (as root, on that node)")
      .action(async (flags) => serve("agent", async () => (await import("./start.ts")).startAgent, flags));
  },
  chartValues: async () => [(await import("./chart/values.ts")).AGENT_VALUES],
  uninstall: async () => (await import("./leave.ts")).AGENT_UNINSTALL,
  podUpdater: async (config) =>
    config.agent.enabled ? (await import("./rollout/pod-updater.ts")).agentUpdater(config) : undefined,
};
