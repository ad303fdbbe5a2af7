import { access } from "node:fs/promises";
import { GATEWAY } from "./calico.ts";
import { ADDRESSES, NAMESPACES } from "./layout.ts";
import { run, runIn } from "./run.ts";

const { node, internet } = NAMESPACES;
const PREFIX = ADDRESSES.nodeRange.split("/")[1];

/**
 * Two namespaces joined by a veth: the node's, with a bridge that has its address, and "the internet", which holds
 * the load balancers, the public DNS, the ACME server and clients from outside. They must be two: on the node
 * itself kube-proxy short-circuits load balancers' addresses for host programs too. Neither has a route to anywhere
 * else.
 */
export async function createNetwork(): Promise<void> {
  for (const name of [node, internet]) {
    await run("ip", "netns", "add", name);
    await run("ip", "-n", name, "link", "set", "lo", "up");
  }
  // No `dummy` device in every kernel; a bridge with an address does.
  await run("ip", "-n", node, "link", "add", "lan", "type", "bridge");
  await run("ip", "-n", node, "address", "add", `${ADDRESSES.node}/${PREFIX}`, "dev", "lan");
  await run("ip", "-n", node, "link", "add", "outside", "type", "veth", "peer", "name", "eth0", "netns", internet);
  await run("ip", "-n", node, "link", "set", "outside", "master", "lan");
  for (const device of ["lan", "outside"]) await run("ip", "-n", node, "link", "set", device, "up");
  const { publicDns, acme, client, nginxLoadBalancer, traefikLoadBalancer, plainLoadBalancer } = ADDRESSES;
  for (const address of [client, publicDns, acme, nginxLoadBalancer, traefikLoadBalancer, plainLoadBalancer]) {
    await run("ip", "-n", internet, "address", "add", `${address}/${PREFIX}`, "dev", "eth0");
  }
  await dropFromPods(plainLoadBalancer);
  await run("ip", "-n", internet, "link", "set", "eth0", "up");
  // Programs of the node, as the API server, look a route up before kube-proxy's rules change the address.
  await run("ip", "-n", node, "route", "add", ADDRESSES.serviceRange, "dev", "lan");
  // The node answers ARP requests of pods for it (proxy_arp) only where it has a route to it. Without Felix no pod
  // asks.
  await run("ip", "-n", node, "route", "add", GATEWAY, "dev", "lan");
  await run("ip", "-n", internet, "route", "add", ADDRESSES.podRange, "via", ADDRESSES.node);
  await runIn("node", "sysctl", "-qw", "net.ipv4.ip_forward=1");
  await bridgedPacketsPassNftables();
  for (const name of ["node", "internet"] as const) {
    await runIn(name, "sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=0");
  }
}

/** Packets of pods to this address of the internet vanish. */
async function dropFromPods(address: string): Promise<void> {
  const nft = async (...rule: string[]) => void (await runIn("internet", "nft", "add", ...rule));
  await nft("table", "ip", "router");
  await nft("chain", "ip", "router", "input", "{ type filter hook input priority 0; }");
  await nft("rule", "ip", "router", "input", "ip", "saddr", ADDRESSES.podRange, "ip", "daddr", address, "drop");
}

/** Else the answer of a pod to a pod by way of a Service stays on the bridge, and is not translated back. */
async function bridgedPacketsPassNftables(): Promise<void> {
  try {
    await access("/proc/sys/net/bridge/bridge-nf-call-iptables");
  } catch {
    await run("modprobe", "br_netfilter");
  }
  await runIn("node", "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1");
}

/** All devices in a namespace go with it. */
export async function deleteNetwork(): Promise<void> {
  const existing = await run("ip", "netns", "list");
  for (const name of [node, internet]) {
    if (existing.split("\n").some((line) => line.split(" ")[0] === name)) await run("ip", "netns", "delete", name);
  }
}
