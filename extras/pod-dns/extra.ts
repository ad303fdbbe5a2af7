import type { Extra } from "../extra.ts";

export const podDns: Extra = {
  name: "pod-dns",
  addCommands({ addComponent, serve }) {
    addComponent("dns")
      .description("run the sidecar of a DNS resolver for pods: keeps the names that CoreDNS answers current")
      .action(async (flags) => serve("dns", async () => (await import("./start.ts")).startDns, flags));
  },
  chartValues: async () => [(await import("./chart/values.ts")).POD_DNS_VALUES],
  startDelivery: async (config, log) => (await import("./webhook/delivery.ts")).startPodDns(config, log),
};
