import type { Extra } from "../extension-points.ts";

export const podDns: Extra = {
  addCommands({ addComponent, serve }) {
    addComponent("dns", "dns --config switchback.yaml")
      .description("run the sidecar of a DNS resolver for pods: keeps the names that CoreDNS answers current")
      .action(async (flags) => serve("dns", async () => (await import("./start.ts")).startDns, flags));
  },
  configSections: async () => [(await import("./config.ts")).POD_DNS_SECTION],
  chartValues: async () => [(await import("./chart/values.ts")).POD_DNS_VALUES],
  checks: async () => [(await import("./check.ts")).POD_DNS_CHECK],
  uninstall: async () => (await import("./leave.ts")).POD_DNS_UNINSTALL,
};
