import type { UninstallPart } from "#extras/uninstall-part.ts";
import { installedNamespace } from "./installed.ts";
import { stopAgents } from "./stop-agents.ts";

export const AGENT_UNINSTALL: UninstallPart = {
  step(sections) {
    const namespace = installedNamespace(sections);
    return {
      plan: "The agents, if any, remove their names from the hosts files of running pods.",
      async run(options) {
        const leases = await stopAgents({ ...options, namespace });
        if (leases.length === 0) return undefined;
        return `agents still have names in the hosts files of running pods: ${leases.join(", ")}`;
      },
    };
  },
};
