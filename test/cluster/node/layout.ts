import { join } from "node:path";

/** Everything of a cluster at run time: configuration, data, logs, sockets, mounts. One cluster a machine. */
export const STATE_FOLDER = "/var/lib/switchback-cluster";

export const NODE_NAME = "node-1";

/** Documentation ranges: nothing answers there, should a packet ever leave. */
export const ADDRESSES = {
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
} as const;

export const CLUSTER_DOMAIN = "cluster.local";
export const API_URL = `https://${ADDRESSES.node}:6443`;

/**
 * Network namespaces: the node with its pods, and what is outside of the cluster. There is no way from either to
 * the machine's own.
 */
export const NAMESPACES = { node: "switchback-node", internet: "switchback-internet" } as const;
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
