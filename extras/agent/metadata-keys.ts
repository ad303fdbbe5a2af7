// Keys of annotations that only this extra uses.

/** Written on an agent's Lease: the pod revisions that the running pods of its node have (agent-lease-format.ts). */
export const POD_REVISIONS_KEY = "switchback.dev/pod-revisions";
/**
 * Written on an agent's Lease, next to the revision: the pods that cannot follow the map, `namespace/name: code, ...`.
 * Informational.
 */
export const PROBLEM_KEY = "switchback.dev/problem";
/** Written on an agent's Lease: the format version. */
export const FORMAT_KEY = "switchback.dev/format";
/**
 * Written by the chart on the agents' DaemonSet while names are chosen for the nodes. Without it, an agent removes
 * its block from its node's hosts file. Written on an agent's Lease: the report about that file
 * (node-hosts-report.ts).
 */
export const NODE_HOSTS_KEY = "switchback.dev/node-hosts";
/**
 * Written on the agent's DaemonSet by the uninstall: the agents remove their managed blocks, then delete their Leases.
 */
export const LEAVING_KEY = "switchback.dev/leaving";
