import { isIPv6 } from "node:net";
import { join } from "node:path";

/**
 * Folder for everything that a cluster has at run time: configuration, data, logs, sockets, mounts. A machine has one
 * cluster.
 */
export const STATE_FOLDER = "/var/lib/switchback-cluster";

export const NODE_NAME = "node-1";

/** Documentation ranges, so that nothing answers if a packet ever leaves the machine. */
const IPV4 = {
  nodeRange: "192.0.2.0/24",
  serviceRange: "198.51.100.0/24",
  podRange: "203.0.113.0/24",
  node: "192.0.2.10",
  apiService: "198.51.100.1",
  dnsService: "198.51.100.10",
  /** This address and those below are in the other namespace, "the internet". */
  publicDns: "192.0.2.53",
  acme: "192.0.2.54",
  client: "192.0.2.60",
  nginxLoadBalancer: "192.0.2.80",
  traefikLoadBalancer: "192.0.2.81",
  plainLoadBalancer: "192.0.2.82",
  freshLoadBalancer: "192.0.2.83",
  contourLoadBalancer: "192.0.2.84",
  envoyLoadBalancer: "192.0.2.85",
  optionalLoadBalancer: "192.0.2.86",
};
type Addresses = Readonly<typeof IPV4>;

const IPV6: Addresses = {
  nodeRange: "2001:db8:1::/64",
  serviceRange: "2001:db8:2::/112",
  podRange: "2001:db8:3::/64",
  node: "2001:db8:1::10",
  apiService: "2001:db8:2::1",
  dnsService: "2001:db8:2::a",
  publicDns: "2001:db8:1::53",
  acme: "2001:db8:1::54",
  client: "2001:db8:1::60",
  nginxLoadBalancer: "2001:db8:1::80",
  traefikLoadBalancer: "2001:db8:1::81",
  plainLoadBalancer: "2001:db8:1::82",
  freshLoadBalancer: "2001:db8:1::83",
  contourLoadBalancer: "2001:db8:1::84",
  envoyLoadBalancer: "2001:db8:1::85",
  optionalLoadBalancer: "2001:db8:1::86",
};

/**
 * The address families of the cluster's networks, chosen by `--dual-stack` or `--ipv6`. Processes that such a run
 * starts inherit the choice.
 */
export type Stack = "ipv4" | "dual-stack" | "ipv6";
export const STACK = stackOf(process.argv, process.env.E2E_STACK);
process.env.E2E_STACK = STACK;

/** @throws RangeError for a stack that does not exist */
function stackOf(args: readonly string[], inherited = "ipv4"): Stack {
  if (args.includes("--ipv6")) return "ipv6";
  if (args.includes("--dual-stack")) return "dual-stack";
  if (inherited === "ipv4" || inherited === "dual-stack" || inherited === "ipv6") return inherited;
  throw new RangeError(`E2E_STACK: ${inherited} is neither ipv4, dual-stack nor ipv6`);
}

/** The addresses of each family that the cluster has. Things with only one address use the first family. */
export const FAMILIES: readonly [Addresses, ...Addresses[]] =
  STACK === "ipv6" ? [IPV6] : STACK === "ipv4" ? [IPV4] : [IPV4, IPV6];
export const [ADDRESSES] = FAMILIES;

/** A node of the cluster. */
export interface ClusterNode {
  readonly name: string;
  readonly namespace: NamespaceName;
  /** For each family, the node's address and the range of its pods. */
  readonly families: readonly Pick<Addresses, "node" | "podRange">[];
  /** The state folder as the machine sees it. The node's own programs see it as STATE_FOLDER. */
  readonly folder: string;
}

/** A cluster of two nodes has only IPv4. Each node has half of the pod range. */
export const SECOND_NODE: ClusterNode = {
  name: "node-2",
  namespace: "node2",
  families: [{ node: "192.0.2.11", podRange: "203.0.113.128/25" }],
  folder: join(STATE_FOLDER, "node-2"),
};
const FIRST_OF_TWO = [{ node: IPV4.node, podRange: "203.0.113.0/25" }];

/** Set by `--nodes 2`. Processes that such a run starts inherit it. */
export const TWO_NODES = areTwoNodes(process.argv, process.env.E2E_NODES);
process.env.E2E_NODES = TWO_NODES ? "2" : "1";

function areTwoNodes(args: readonly string[], inherited = "1"): boolean {
  const flag = args.indexOf("--nodes");
  return (flag < 0 ? inherited : args[flag + 1]) === "2";
}

/** The nodes of this run. The control plane is on the first one. */
export const [FIRST_NODE, ...FURTHER_NODES]: readonly [ClusterNode, ...ClusterNode[]] = [
  { name: NODE_NAME, namespace: "node", families: TWO_NODES ? FIRST_OF_TWO : FAMILIES, folder: STATE_FOLDER },
  ...(TWO_NODES ? [SECOND_NODE] : []),
];
export const NODES: readonly ClusterNode[] = [FIRST_NODE, ...FURTHER_NODES];

/** Name of a node's program among the programs of the cluster. */
export function daemonName(program: string, { name }: ClusterNode): string {
  return name === NODE_NAME ? program : `${program}-${name}`;
}

/** An address with a port, as in a URL. */
export function withPort(address: string, port: number | string): string {
  return isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`;
}

export const CLUSTER_DOMAIN = "cluster.local";
export const API_URL = `https://${withPort(ADDRESSES.node, 6443)}`;

/**
 * Network namespaces: one for each node with its pods, and one for everything outside the cluster. None of them has a
 * route to the machine's own namespace.
 */
export const NAMESPACES = {
  node: "switchback-node",
  node2: "switchback-node-2",
  internet: "switchback-internet",
} as const;
export type NamespaceName = keyof typeof NAMESPACES;

/** Name of the cgroup of everything that `cluster:up` starts, below each hierarchy's root. */
export const CGROUP = "switchback-cluster";

/** The fixed path of a kubelet's socket for device plugins. */
export const DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins";

/** A path in the state folder. */
export function statePath(...parts: string[]): string {
  return join(STATE_FOLDER, ...parts);
}

/** The file that the node has at /etc/hosts. */
export const NODE_HOSTS = statePath("hosts");
export const LOGS = statePath("logs");
export const POD_LOGS = statePath("logs", "pods");
export const ADMIN_KUBECONFIG = statePath("admin.kubeconfig");
export const CONTAINERD_SOCKET = statePath("containerd.sock");
/** Written last, when the cluster is complete. Says when that was, and which layout the cluster has. */
export const UP_FILE = statePath("up.json");
