import { shortHash } from "#hostmap/hash.ts";
import { REVISION_KEY } from "#hostmap/metadata-keys.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Lease } from "#lib/kube/lease.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { FORMAT_KEY, NODE_HOSTS_KEY, POD_REVISIONS_KEY } from "./metadata-keys.ts";
import { type NodeHostsReport, parseNodeHostsReport } from "./node-hosts-report.ts";

/**
 * Format version of the annotations. Raise it if today's readers would misread them. A Lease without a version has
 * version 1.
 */
const VERSION = "1";

/**
 * Maximum number of pod revisions that a Lease lists, 13 bytes each. A node runs 110 pods by default. Only a node
 * with more pods, each with a different selection of names, can exceed it. Its Lease then has no list, and the map's
 * revision counts.
 */
const MAX_POD_REVISIONS = 128;

/** Maximum length of a Lease's name. Like a node's name, it is a DNS-1123 subdomain. */
const MAX_NAME = 253;
const PREFIX = "switchback-agent-";

/** The DaemonSet of the agents, in the namespace of their Leases. */
export const AGENT_DAEMON_SET = "switchback-agent";

/** Labels of the agents' Leases, and the selector that lists them without other Leases of the namespace. */
export const AGENT_LEASE_LABELS: Readonly<Record<string, string>> = {
  "app.kubernetes.io/name": "switchback",
  "app.kubernetes.io/component": "agent",
};
export const AGENT_LEASE_SELECTOR = Object.entries(AGENT_LEASE_LABELS)
  .map((label) => label.join("="))
  .join();

/**
 * The name of the Lease of a node's agent. A name that would be too long is cut and ends with a hash of the node's
 * name.
 */
export function agentLeaseName(node: string): string {
  const name = `${PREFIX}${node}`;
  if (name.length <= MAX_NAME) return name;
  const hash = shortHash(node);
  return `${name.slice(0, MAX_NAME - hash.length - 1).replace(/[-.]+$/, "")}-${hash}`;
}

/** Path of the agents' Leases in their namespace (`agent.namespace`), or of one of them. */
export function agentLeasePath(namespace: string, name?: string): string {
  const leases = { group: "coordination.k8s.io", version: "v1", namespace, resource: "leases" };
  return resourcePath(name === undefined ? leases : { ...leases, name });
}

/** What an agent's Lease says. */
export interface AgentLease {
  /** RFC 3339 time by the clock of the node. */
  readonly renewTime: string | undefined;
  /**
   * Revision of the published map that the agent has applied to every pod of its node that follows the map. Undefined
   * if there is none yet, or if the Lease has another format version. While a hosts file cannot be written, the
   * revision does not change. If the Lease has `podRevisions`, a change of this revision alone is written only at the
   * next renewal: most changes of the map concern no pod of a node.
   */
  readonly mapRevision: string | undefined;
  /**
   * Pod revisions (`SelectedHosts.revision`) for which every pod of the node with that selection has its names.
   * Undefined if the agent does not know yet, if there are too many, or if the Lease has another format version.
   */
  readonly podRevisions: readonly string[] | undefined;
  /** Report about the node's hosts file. Undefined if no names are chosen for nodes. */
  readonly nodeHosts?: NodeHostsReport | undefined;
}

/** Renders `podRevisions`: sorted, each once. Undefined if there are too many. */
export function renderPodRevisions(podRevisions: Iterable<string>): string | undefined {
  const distinct = [...new Set(podRevisions)].sort();
  return distinct.length > MAX_POD_REVISIONS ? undefined : distinct.join(" ");
}

function parsePodRevisions(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  return text.split(" ", MAX_POD_REVISIONS).filter((revision) => revision !== "");
}

/** Adds the format version to annotations of the Lease. */
export function withFormat(annotations: Readonly<Record<string, string>>): Record<string, string> {
  return { ...annotations, [FORMAT_KEY]: VERSION };
}

/** Reads a Lease. A Lease with another format version still proves that the agent is alive. */
export function parseAgentLease({ metadata, spec }: Lease): AgentLease {
  const annotations = metadata.annotations ?? {};
  const isReadable = (annotations[FORMAT_KEY] ?? VERSION) === VERSION;
  const nodeHosts = isReadable ? parseNodeHostsReport(annotations[NODE_HOSTS_KEY]) : undefined;
  return {
    renewTime: spec?.renewTime,
    mapRevision: (isReadable && annotations[REVISION_KEY]) || undefined,
    podRevisions: isReadable ? parsePodRevisions(annotations[POD_REVISIONS_KEY]) : undefined,
    ...(nodeHosts !== undefined && { nodeHosts }),
  };
}

/** Reads the agents' Leases once, each with its name. Rejects if the API server refuses. */
export async function listAgentLeases(
  client: Pick<KubeClient, "list">,
  namespace: string,
): Promise<ReadonlyArray<AgentLease & { readonly name: string }>> {
  const { items } = await client.list<Lease>(agentLeasePath(namespace), { labelSelector: AGENT_LEASE_SELECTOR });
  return items.map((lease) => ({ name: lease.metadata.name ?? "", ...parseAgentLease(lease) }));
}
