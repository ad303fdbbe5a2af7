import assert from "node:assert/strict";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { type ClusterNode, FIRST_NODE, SECOND_NODE } from "../cluster/node/layout.ts";
import { SYSTEM } from "./switchback.ts";

// What the tests of two nodes read from the cluster and change in it.

export const FIRST: ClusterNode = FIRST_NODE;
export const SECOND: ClusterNode = SECOND_NODE;
const HEALTH_PORT = 8082;

/** Converts a Deployment to a DaemonSet, which has one pod on each node. A drain does not remove these pods. */
export function onEachNode({ spec, ...object }: KubeObject): KubeObject {
  const { replicas: _replicas, ...rest } = spec as Record<string, unknown>;
  return { ...object, kind: "DaemonSet", spec: rest } as KubeObject;
}

interface RawPod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly spec: { readonly nodeName?: string };
}

/** The only pod of a Switchback component or of a test workload on a node, without those that are being deleted. */
export async function podOn(cluster: Cluster, node: ClusterNode, namespace: string, name: string): Promise<string> {
  const label = namespace === SYSTEM ? `app.kubernetes.io/component=${name}` : `app=${name}`;
  const { items } = await cluster.get<{ items: RawPod[] }>("-n", namespace, "pods", "-l", label);
  const alive = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const [pod, ...others] = alive.filter(({ spec }) => spec.nodeName === node.name);
  assert.ok(
    pod && others.length === 0,
    `${name} on ${node.name}: ${JSON.stringify(alive.map(({ spec }) => spec.nodeName))}`,
  );
  return pod.metadata.name;
}

/** The name of the leading controller's pod. The pod may be lost already. */
async function leader(cluster: Cluster): Promise<string | undefined> {
  const { spec } = await cluster.get<{ spec: { holderIdentity?: string } }>(
    ...["-n", SYSTEM, "lease", "switchback-controller"],
  );
  return spec.holderIdentity;
}

export async function isLeaderOn(cluster: Cluster, node: ClusterNode): Promise<boolean> {
  return (await leader(cluster)) === (await podOn(cluster, node, SYSTEM, "controller"));
}

/** Makes the controller on this node lead, by deleting a leader on another node. */
export async function leadsOn(cluster: Cluster, node: ClusterNode): Promise<void> {
  await cluster.until(`the controller on ${node.name} leads`, 90, async () => {
    if (await isLeaderOn(cluster, node)) return true;
    const other = await leader(cluster);
    if (other) await cluster.kubectl("-n", SYSTEM, "delete", "pod", other, "--ignore-not-found");
    return undefined;
  });
  await cluster.rolledOut(SYSTEM, "deployment/switchback-controller");
}

interface RawSlices {
  readonly items: readonly {
    readonly endpoints?: readonly {
      readonly addresses: readonly string[];
      readonly conditions?: { readonly ready?: boolean };
    }[];
  }[];
}

/** The addresses to which kube-proxy may send a Service's connections. */
export async function readyEndpoints(cluster: Cluster, namespace: string, service: string): Promise<string[]> {
  const of = ["-n", namespace, "endpointslices", "-l", `kubernetes.io/service-name=${service}`];
  const { items } = await cluster.get<RawSlices>(...of);
  const endpoints = items.flatMap(({ endpoints: all }) => all ?? []);
  return endpoints.filter(({ conditions }) => conditions?.ready !== false).flatMap(({ addresses }) => addresses);
}

/** Number of connections that the proxy on a node has accepted. */
export async function relayedBy(cluster: Cluster, node: ClusterNode): Promise<number> {
  const pod = await podOn(cluster, node, SYSTEM, "proxy");
  const path = `/api/v1/namespaces/${SYSTEM}/pods/${pod}:${HEALTH_PORT}/proxy/metrics`;
  const lines = (await cluster.kubectl("get", "--raw", path)).split("\n");
  const counts = lines.filter((line) => line.startsWith("switchback_proxy_connections_total{"));
  return counts.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

export function secondsSince(started: number): string {
  return ((performance.now() - started) / 1000).toFixed(1);
}
