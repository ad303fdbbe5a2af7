import { access } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { GATEWAY } from "./calico.ts";
import {
  ADDRESSES,
  type ClusterNode,
  FAMILIES,
  FURTHER_NODES,
  NAMESPACES,
  type NamespaceName,
  NODES,
  STACK,
} from "./layout.ts";
import { run, runIn } from "./run.ts";

const { node, internet } = NAMESPACES;
type Family = (typeof FAMILIES)[number];
/** Name of a further node's link, on the first node's bridge. */
const LINK = "further";

/**
 * Creates two namespaces that a veth joins. The node's namespace has a bridge with the node's address. "The internet"
 * has the load balancers, the public DNS, the ACME server and clients outside. They must be separate, because on the
 * node itself kube-proxy also short-circuits load balancers' addresses for programs of the host. Further nodes are on
 * the same bridge. No namespace has a route to anywhere else.
 */
export async function createNetwork(): Promise<void> {
  for (const name of [node, internet]) {
    await run("ip", "netns", "add", name);
    await run("ip", "-n", name, "link", "set", "lo", "up");
  }
  // Not every kernel has `dummy` devices. A bridge with an address works too.
  await run("ip", "-n", node, "link", "add", "lan", "type", "bridge");
  for (const family of FAMILIES) await addAddress(node, family.node, family, "lan");
  await run("ip", "-n", node, "link", "add", "outside", "type", "veth", "peer", "name", "eth0", "netns", internet);
  await run("ip", "-n", node, "link", "set", "outside", "master", "lan");
  for (const device of ["lan", "outside"]) await run("ip", "-n", node, "link", "set", device, "up");
  for (const family of FAMILIES) {
    const { publicDns, acme, client, nginxLoadBalancer, traefikLoadBalancer } = family;
    const balancers = [nginxLoadBalancer, traefikLoadBalancer, family.plainLoadBalancer, family.contourLoadBalancer];
    balancers.push(family.envoyLoadBalancer, family.optionalLoadBalancer);
    for (const address of [client, publicDns, acme, ...balancers]) {
      await addAddress(internet, address, family, "eth0");
    }
  }
  await dropFromPods();
  await run("ip", "-n", internet, "link", "set", "eth0", "up");
  for (const further of FURTHER_NODES) await joinNode(further);
  for (const { serviceRange } of FAMILIES) {
    // Programs of the node, such as the API server, need a route: the kernel looks it up before kube-proxy's rules
    // change the address.
    for (const one of NODES)
      await run("ip", "-n", NAMESPACES[one.namespace], "route", "add", serviceRange, "dev", "lan");
  }
  for (const from of [...NODES.map(({ namespace }) => namespace), "internet"] as const) await addPodRoutes(from);
  // Pods send ARP requests for this address. The node answers them (proxy_arp) only if it has a route to it. Without
  // Felix, no pod sends such requests.
  await run("ip", "-n", node, "route", "add", GATEWAY, "dev", "lan");
  const forwarding = STACK === "ipv4" ? [] : ["net.ipv6.conf.all.forwarding=1"];
  for (const { namespace } of NODES) {
    await runIn(namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1", ...forwarding);
    await bridgedPacketsPassNftables(namespace);
  }
  for (const name of [...NODES.map(({ namespace }) => namespace), "internet"] as const) {
    await runIn(name, "sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=0");
  }
}

/** Creates the namespace of a further node. Its device has the same name as the first node's bridge. */
async function joinNode({ namespace, families }: ClusterNode): Promise<void> {
  const name = NAMESPACES[namespace];
  await run("ip", "netns", "add", name);
  await run("ip", "-n", name, "link", "set", "lo", "up");
  await run("ip", "-n", node, "link", "add", LINK, "type", "veth", "peer", "name", "lan", "netns", name);
  await run("ip", "-n", node, "link", "set", LINK, "master", "lan", "up");
  for (const { node: address } of families) await addAddress(name, address, ADDRESSES, "lan");
  await run("ip", "-n", name, "link", "set", "lan", "up");
}

/** Routes the pods of each other node through that node. */
async function addPodRoutes(from: NamespaceName): Promise<void> {
  for (const { namespace, families } of NODES) {
    if (namespace === from) continue;
    for (const { podRange, node: via } of families) {
      await run("ip", "-n", NAMESPACES[from], "route", "add", podRange, "via", via);
    }
  }
}

/** Disconnects the second node from everything, or reconnects it. */
export async function setSecondNodeLink(state: "up" | "down"): Promise<void> {
  await run("ip", "-n", node, "link", "set", LINK, state);
}

/** With "down", every IPv6 packet that the node or one of its pods sends or receives is dropped. "up" ends this. */
export async function setIpv6(state: "up" | "down"): Promise<void> {
  const table = ["ip6", "lost"];
  if (state === "up") return void (await runIn("node", "nft", "delete", "table", ...table));
  await runIn("node", "nft", "add", "table", ...table);
  for (const [hook, device] of [
    ["prerouting", "iif"],
    ["output", "oif"],
  ] as const) {
    await runIn("node", "nft", "add", "chain", ...table, hook, `{ type filter hook ${hook} priority -400; }`);
    await runIn("node", "nft", "add", "rule", ...table, hook, device, "!=", "lo", "drop");
  }
}

/** Adds an address that works at once. No other machine has it, so duplicate detection is off (`nodad`). */
async function addAddress(name: string, address: string, { nodeRange }: Family, device: string): Promise<void> {
  const nodad = isIPv6(address) ? ["nodad"] : [];
  await run("ip", "-n", name, "address", "add", `${address}/${nodeRange.split("/")[1]}`, "dev", device, ...nodad);
}

/** Drops packets from pods to the load balancer `plain`. */
async function dropFromPods(): Promise<void> {
  const nft = async (...rule: string[]) => void (await runIn("internet", "nft", "add", ...rule));
  await nft("table", "inet", "router");
  await nft("chain", "inet", "router", "input", "{ type filter hook input priority 0; }");
  for (const { podRange, plainLoadBalancer } of FAMILIES) {
    const ip = isIPv6(plainLoadBalancer) ? "ip6" : "ip";
    await nft("rule", "inet", "router", "input", ip, "saddr", podRange, ip, "daddr", plainLoadBalancer, "drop");
  }
}

/**
 * Without this, a pod's answer to another pod through a Service stays on the bridge, and its address is not
 * translated back.
 */
async function bridgedPacketsPassNftables(namespace: NamespaceName): Promise<void> {
  try {
    await access("/proc/sys/net/bridge/bridge-nf-call-iptables");
  } catch {
    await run("modprobe", "br_netfilter");
  }
  for (const tables of STACK === "ipv4" ? ["iptables"] : ["iptables", "ip6tables"]) {
    await runIn(namespace, "sysctl", "-qw", `net.bridge.bridge-nf-call-${tables}=1`);
  }
}

/** Deletes the namespaces. All devices in a namespace are deleted with it. */
export async function deleteNetwork(): Promise<void> {
  const existing = await run("ip", "netns", "list");
  for (const name of Object.values(NAMESPACES)) {
    if (existing.split("\n").some((line) => line.split(" ")[0] === name)) await run("ip", "netns", "delete", name);
  }
}
