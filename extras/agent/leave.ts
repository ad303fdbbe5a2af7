import * as v from "valibot";
import type { UninstallPart } from "#extras/extra.ts";
import { object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import { DEFAULT_AGENT_NAMESPACE } from "./config.ts";
import { stopAgents } from "./stop-agents.ts";

/** Only what matters here, and leniently: the install may be of another version. */
const schema = v.optional(object({ namespace: v.optional(v.string(), DEFAULT_AGENT_NAMESPACE) }), {});

export const AGENT_UNINSTALL: UninstallPart = {
  // The last step, as agents that were stopped do not start again by themselves.
  lastStep(sections) {
    const { namespace } = parse(schema, sections.agent);
    return {
      plan: "The agents, where there are any, take their names out of the hosts files of running pods.",
      async run(options) {
        const leases = await stopAgents({ ...options, namespace });
        if (leases.length === 0) return undefined;
        return {
          who: "agents",
          text: `agents still have names in the hosts files of running pods: ${leases.join(", ")}`,
        };
      },
    };
  },
};
