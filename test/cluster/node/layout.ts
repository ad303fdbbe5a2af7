import { isIPv6 } from "node:net";
import { join } from "node:path";

/** Everything of a cluster at run time: configuration, data, logs, sockets, mounts. One cluster a machine. */
export const STATE_FOLDER = "/var/lib/switchback-cluster";

export const NODE_NAME = "node-1";

/** Documentation ranges: nothing answers there, should a packet ever leave. */
const IPV4 = {
  nodeRange: "192.0.2.0/24",
  serviceRange: "198.51.100.0/24",
  podRange: "203.0.113.0/24",
  node: "192.0.2.10",
  apiService: "198.51.100.1",
  dnsService: "198.51.100.10",
  /** In the other namespace, "the internet". */
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

/** The families of the cluster's networks: `--dual-stack` and `--ipv6`, and what such a run starts inherits it. */
export type Stack = "ipv4" | "dual-stack" | "ipv6";
export const STACK = stackOf(process.argv, process.env.E2E_STACK);
process.env.E2E_STACK = STACK;

/** @throws RangeError for a stack that does not exist */
export function stackOf(args: readonly string[], inherited = "ipv4"): Stack {
  if (args.includes("--ipv6")) return "ipv6";
  if (args.includes("--dual-stack")) return "dual-stack";
  if (inherited === "ipv4" || inherited === "dual-stack" || inherited === "ipv6") return inherited;
  throw new RangeError(`E2E_STACK: ${inherited} is neither ipv4, dual-stack nor ipv6`);
}

/** The addresses of each family that the cluster has, the first one for what has one address. */
export const FAMILIES: readonly [Addresses, ...Addresses[]] =
  STACK === "ipv6" ? [IPV6] : STACK === "ipv4" ? [IPV4] : [IPV4, IPV6];
export const [ADDRESSES] = FAMILIES;

/** A node of the cluster. */
export interface ClusterNode {
  readonly name: string;
  readonly namespace: NamespaceName;
  /** Of each family: its address, and the range of its pods. */
  readonly families: readonly Pick<Addresses, "node" | "podRange">[];
  /** The state folder as the machine sees it. The node's own programs see it as STATE_FOLDER. */
  readonly folder: string;
}

/** A cluster of two nodes has IPv4 alone. Each node has half of the range of pods. */
export const SECOND_NODE: ClusterNode = {
  name: "node-2",
  namespace: "node2",
  families: [{ node: "192.0.2.11", podRange: "203.0.113.128/25" }],
  folder: join(STATE_FOLDER, "node-2"),
};
const FIRST_OF_TWO = [{ node: IPV4.node, podRange: "203.0.113.0/25" }];

/** `--nodes 2`, and what such a run starts inherits it. */
export const TWO_NODES = areTwoNodes(process.argv, process.env.E2E_NODES);
process.env.E2E_NODES = TWO_NODES ? "2" : "1";

export function areTwoNodes(args: readonly string[], inherited = "1"): boolean {
  const flag = args.indexOf("--nodes");
  return (flag < 0 ? inherited : args[flag + 1]) === "2";
}

/** The nodes of this run. The control plane is on the first one. */
export const [FIRST_NODE, ...FURTHER_NODES]: readonly [ClusterNode, ...ClusterNode[]] = [
  { name: NODE_NAME, namespace: "node", families: TWO_NODES ? FIRST_OF_TWO : FAMILIES, folder: STATE_FOLDER },
  ...(TWO_NODES ? [SECOND_NODE] : []),
];
export const NODES: readonly ClusterNode[] = [FIRST_NODE, ...FURTHER_NODES];

/** What a node's program is called among the programs of the cluster. */
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
 * Network namespaces: each node with its pods, and what is outside of the cluster. There is no way from any of them
 * to the machine's own.
 */
export const NAMESPACES = {
  node: "switchback-node",
  node2: "switchback-node-2",
  internet: "switchback-internet",
} as const;
export type NamespaceName = keyof typeof NAMESPACES;

/** The cgroup of everything that `cluster:up` starts, below each hierarchy's root. */
export const CGROUP = "switchback-cluster";

/** The fixed path of a kubelet's socket for device plugins. */
export const DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins";

/** A path in the state folder. */
export function statePath(...parts: string[]): string {
  return join(STATE_FOLDER, ...parts);
}

/** What the node has at /etc/hosts. */
export const NODE_HOSTS = statePath("hosts");
export const LOGS = statePath("logs");
export const POD_LOGS = statePath("logs", "pods");
export const ADMIN_KUBECONFIG = statePath("admin.kubeconfig");
export const CONTAINERD_SOCKET = statePath("containerd.sock");
/** Written last: the cluster is whole, and how long it took. */
export const UP_FILE = statePath("up.json");
/** The cluster goes with the run of tests that brought it up, or with the next one if that was killed. */
export const TEMPORARY_FILE = statePath("temporary");
