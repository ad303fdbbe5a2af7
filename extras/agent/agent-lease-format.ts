import { shortHash } from "#hostmap/hash.ts";
import { REVISION_KEY } from "#hostmap/metadata-keys.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Lease } from "#lib/kube/lease-record.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { FORMAT_KEY, NODE_HOSTS_KEY, POD_REVISIONS_KEY } from "./metadata-keys.ts";
import { type NodeHostsReport, parseNodeHostsReport } from "./node-hosts-report.ts";

/** Raised when a reader of the annotations of today would go wrong. A Lease without a version is of version 1. */
const VERSION = "1";

/**
 * Pod revisions that a Lease lists, 13 bytes each. A node runs 110 pods by default, so only a node with more of
 * them, each with another selection of names, is beyond it. Its Lease then has no list, and the map's revision
 * counts.
 */
const MAX_POD_REVISIONS = 128;

/** A Lease's name is a DNS-1123 subdomain, as a node's is: at most 253 characters. */
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
  /** RFC 3339, by the clock of the node. */
  readonly renewTime: string | undefined;
  /**
   * The revision of the published map that the agent has applied to every pod of its node that follows the map.
   * Undefined when it has not come that far yet, or when the Lease has another format version. While a hosts file
   * cannot be written, the revision stays where it was. Beside `podRevisions` it is written only at renewals: most
   * changes of the map concern no pod of a node.
   */
  readonly mapRevision: string | undefined;
  /**
   * The pod revisions (`SelectedHosts.revision`) for which every pod of the node with that selection has its names.
   * Undefined: the agent does not know yet, there are too many, or the Lease has another format version.
   */
  readonly podRevisions: readonly string[] | undefined;
  /** What the node's hosts file has; undefined: no names are chosen for nodes. */
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

/** The annotations of the Lease that are of format version 1, with that version. */
export function withFormat(annotations: Readonly<Record<string, string>>): Record<string, string> {
  return { ...annotations, [FORMAT_KEY]: VERSION };
}

/** Reads a Lease. A Lease of another format version still proves that the agent lives. */
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
