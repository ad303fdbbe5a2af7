import { shortHash } from "../hostmap/hash.ts";
import { REVISION_KEY } from "../hostmap/metadata-keys.ts";
import type { ObjectMeta } from "../kube/types.ts";

/** A Lease's name is a DNS-1123 subdomain, as a node's is: at most 253 characters. */
const MAX_NAME = 253;
const PREFIX = "switchback-agent-";

/** The agents of all nodes, in the same namespace. */
export const AGENT_DAEMON_SET = "switchback-agent";

/** Label of the agents' Leases, so that they are listed without the others of their namespace. */
export const AGENT_LEASE_LABELS: Readonly<Record<string, string>> = {
  "app.kubernetes.io/name": "switchback",
  "app.kubernetes.io/component": "agent",
};

/** The Lease of a node's agent, in the agents' namespace (`agent.namespace`). A name that would be too long is cut and told apart by a hash. */
export function agentLeaseName(node: string): string {
  const name = `${PREFIX}${node}`;
  if (name.length <= MAX_NAME) return name;
  const hash = shortHash(node);
  return `${name.slice(0, MAX_NAME - hash.length - 1).replace(/[-.]+$/, "")}-${hash}`;
}

/**
 * The revision of the published map that the agent has applied to every pod of its node that is to follow it, or undefined when it
 * has not come that far yet. A pod whose hosts file cannot be written keeps it where it was.
 */
export function appliedRevision(metadata: ObjectMeta): string | undefined {
  return metadata.annotations?.[REVISION_KEY] || undefined;
}
