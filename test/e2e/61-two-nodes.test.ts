import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { service } from "../cluster/addons/objects.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { type ClusterNode, FIRST_NODE as FIRST, SECOND_NODE as SECOND } from "../cluster/node/layout.ts";
import { setSecondNodeLink } from "../cluster/node/network.ts";
import { withCluster } from "../cluster/whole.ts";
import { createPods } from "./concurrent-pods.ts";
import { OPTED_IN } from "./opted-in.ts";
import { programCommand, programDeployment } from "./programs/run.ts";
import { type Answer, ingress, NAME, openShop } from "./shop.ts";
import { installSwitchback, publishedMap, SYSTEM, withAgent } from "./switchback.ts";
import type { Load } from "./unnoticed.ts";

// A proxy, an agent and a client on each of two nodes. The second node is drained, cut off, and comes back. The ingress
// controller is on the first node, so that requests can fail only because a part of Switchback is lost.

export const needs = ["node", "two-nodes"];

const OURS = `http://${NAME}/`;
/** A Service without Switchback. It has as many backends as a name has proxies: one on each node. */
const PLAIN = "plain";
/** Much longer than each load takes. `stop` ends the load. */
const LOAD_SECONDS = 300;
const PERIOD_MS = 100;
/** Time for which requests continue before and after a fault, and through an event that nobody may notice. */
const AROUND_MS = 5_000;
const CUT_MS = 20_000;
/** The endpoints of two Services do not reach kube-proxy at the same moment. */
const APART_MS = 2_000;
const PODS = 10;
const HEALTH_PORT = 8082;

interface Paced {
  readonly asked: number;
  readonly failed: readonly number[];
  readonly errors: Readonly<Record<string, number>>;
}

let cluster: Cluster;
let plain: string;

before(async () => {
  cluster = await withCluster();
  await setSecondNodeLink("up");
  await openShop(cluster);
  await cluster.kubectl("uncordon", SECOND.name);
  await installSwitchback(cluster, withAgent());
  await cluster.until(
    "the name is published",
    60,
    async () => (await publishedMap(cluster)).includes(NAME) || undefined,
  );
  const metadata = {
    name: OPTED_IN,
    labels: { "switchback.dev/inject": "enabled" },
    annotations: { "switchback.dev/on-change": "live" },
  };
  await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata });
  const listening = { ports: { http: 8080 }, readinessProbe: { tcpSocket: { port: "http" } } };
  await cluster.apply(
    onEachNode(programDeployment(OPTED_IN, "client", programCommand("client", "sleep"))),
    onEachNode(programDeployment(OPTED_IN, PLAIN, programCommand("client", "serve"), listening)),
    service(OPTED_IN, PLAIN, { app: PLAIN, ports: [{ name: "http", port: 80, targetPort: "http" }] }),
  );
  await cluster.rolledOut(OPTED_IN, "daemonset/client", `daemonset/${PLAIN}`);
  const { spec } = await cluster.get<{ spec: { clusterIP: string } }>("-n", OPTED_IN, "service", PLAIN);
  plain = `http://${spec.clusterIP}/`;
});

after(async () => {
  await setSecondNodeLink("up");
  await cluster.kubectl("uncordon", SECOND.name);
});

async function client(node: typeof FIRST, ...args: string[]): Promise<string> {
  const pod = await podOn(node, OPTED_IN, "client");
  return (await cluster.exec(`${OPTED_IN}/${pod}`, ...programCommand("client", ...args))).stdout.trim();
}

/** The client on the first node sends requests to the name and to the plain Service at the same time. */
async function paced(fault: () => Promise<void>): Promise<{ ours: Paced; other: Paced }> {
  const load = client(FIRST, "pace", `${LOAD_SECONDS}`, `${PERIOD_MS}`, OURS, plain);
  try {
    await delay(AROUND_MS);
    await fault();
    await delay(AROUND_MS);
  } finally {
    await client(FIRST, "stop");
  }
  const [ours, other] = JSON.parse(await load) as [Paced, Paced];
  return { ours, other };
}

async function answers(node: typeof FIRST): Promise<void> {
  await cluster.until(`the client on ${node.name} is answered`, 60, async () => {
    const { status, body } = JSON.parse(await client(node, "get", OURS)) as Answer;
    return (status === 200 && body?.startsWith("the shop ")) || undefined;
  });
}

async function followsTo(node: typeof FIRST, name: string): Promise<void> {
  await cluster.until(`${name} in a running pod on ${node.name}`, 60, async () => {
    return (await client(node, "hosts")).includes(name) || undefined;
  });
}

const bothServe = () =>
  cluster.until("a proxy on each node serves", 90, async () => {
    return (await readyEndpoints(SYSTEM, "switchback-ingress-nginx")).length === 2 || undefined;
  });

test("each node has a proxy, and a pod on each node reaches the name", async () => {
  for (const node of [FIRST, SECOND]) {
    await podOn(node, SYSTEM, "proxy");
    await answers(node);
  }
});

test("the agent of each node keeps its running pods current", async (t) => {
  const created = performance.now();
  await cluster.apply(ingress("both", "both.example.com", "nginx"));
  await Promise.all([FIRST, SECOND].map((node) => followsTo(node, "both.example.com")));
  t.diagnostic(`Ingress created to the name in the pods of both nodes: ${secondsSince(created)} s`);
});

test("no request fails while the node is drained", async (t) => {
  const urls = [OURS, `${OURS}slow`, `${OURS}stream`, `${OURS}stream`];
  const load = client(FIRST, "load", `${LOAD_SECONDS}`, ...urls);
  try {
    await delay(AROUND_MS);
    const started = performance.now();
    await cluster.kubectl("drain", SECOND.name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s");
    t.diagnostic(`drained in ${secondsSince(started)} s`);
    await delay(AROUND_MS);
  } finally {
    await client(FIRST, "stop");
    await cluster.kubectl("uncordon", SECOND.name);
  }
  const { answered, reused, errors } = JSON.parse(await load) as Load;
  t.diagnostic(`${answered} requests were answered, ${reused} on kept connections, ${errors.length} failed`);
  assert.deepEqual(errors, []);
  assert.ok(answered > 50 && reused > 20);
  await answers(SECOND);
});

for (const distribution of ["PreferClose", "PreferSameNode"]) {
  test(`trafficDistribution ${distribution}: the proxy in the client's own zone or node serves`, async (t) => {
    for (const { name } of [FIRST, SECOND]) {
      await cluster.kubectl("label", "node", name, `topology.kubernetes.io/zone=zone-of-${name}`, "--overwrite");
    }
    await installSwitchback(cluster, withAgent({ proxy: { trafficDistribution: distribution } }));
    await bothServe();
    for (const [own, elsewhere] of [
      [FIRST, SECOND],
      [SECOND, FIRST],
    ] as const) {
      const relayed = async () => [await relayedBy(own), await relayedBy(elsewhere)] as const;
      await cluster.until(`only the proxy on ${own.name} serves`, 60, async () => {
        const before = await relayed();
        const [{ asked, failed }] = JSON.parse(await client(own, "pace", "3", "100", OURS)) as [Paced];
        const after = await relayed();
        const [here, there] = [after[0] - before[0], after[1] - before[1]];
        if (failed.length > 0 || here !== asked || there !== 0)
          throw new Error(`${asked}: ${here} here, ${there} there`);
        t.diagnostic(`client on ${own.name}: ${here} of ${asked} connections by its own proxy`);
        return true;
      });
    }
  });
}

test("with PreferSameNode, no request on the other node fails while a node is cut off", async (t) => {
  const { ours } = await paced(async () => {
    await setSecondNodeLink("down");
    await delay(CUT_MS);
    await setSecondNodeLink("up");
  });
  t.diagnostic(`${ours.failed.length} of ${ours.asked} requests failed`);
  assert.deepEqual(ours.failed, []);
  await answers(SECOND);
});

// This test is the last but one. For two minutes, the kernel remembers connections that the lost node never answered
// (conntrack's SYN_SENT). A new connection from the same port of the client goes to the same backend, whatever
// kube-proxy's rules say.
test("the leader's node is cut off: no more requests fail than with a plain Service, and another leads", async (t) => {
  await installSwitchback(cluster, withAgent());
  await cluster.until("any proxy serves", 60, async () => {
    const { spec } = await cluster.get<{ spec: object }>("-n", SYSTEM, "service", "switchback-ingress-nginx");
    return !("trafficDistribution" in spec) || undefined;
  });
  await bothServe();
  await leadsOn(SECOND);
  let unnamed = 0;
  let noticed = "";
  const { ours, other } = await paced(async () => {
    const cut = performance.now();
    await setSecondNodeLink("down");
    const led = cluster.until("another leads", 60, async () => (await isLeaderOn(FIRST)) || undefined);
    const leading = led.then(() => t.diagnostic(`another controller leads after ${secondsSince(cut)} s`));
    const mapped = (async () => {
      await cluster.apply(ingress("meanwhile", "meanwhile.example.com", "nginx"));
      await followsTo(FIRST, "meanwhile.example.com");
      t.diagnostic(`a new Ingress is in the running pod after ${secondsSince(cut)} s`);
    })();
    const pods = createPods(cluster, { count: PODS });
    await Promise.all([leading, mapped, pods]);
    unnamed = (await pods).filter((revision) => revision === "").length;
    await cluster.until("Kubernetes notices", 120, async () => {
      const left = [await readyEndpoints(SYSTEM, "switchback-ingress-nginx"), await readyEndpoints(OPTED_IN, PLAIN)];
      return left.every(({ length }) => length === 1) || undefined;
    });
    noticed = secondsSince(cut);
  });
  t.diagnostic(`Kubernetes noticed after ${noticed} s`);
  t.diagnostic(`${PODS} pods were made meanwhile, ${unnamed} without names`);
  const last = Math.max(...other.failed);
  const beyond = ours.failed.filter((sent) => sent > last + APART_MS);
  for (const [what, { asked, failed, errors }] of Object.entries({ name: ours, "plain Service": other })) {
    t.diagnostic(`${what}: ${failed.length} of ${asked} requests failed: ${JSON.stringify(errors)}`);
  }
  t.diagnostic(`requests to the name that failed after the plain Service was well: ${beyond.length}`);
  assert.ok(other.failed.length > 20, "the plain Service lost requests");
  assert.deepEqual(beyond, []);
  // Each request goes to one of two nodes by chance. The allowed difference is four standard deviations.
  const during = (last - Math.min(...other.failed)) / PERIOD_MS;
  assert.ok(ours.failed.length <= other.failed.length + 4 * Math.sqrt(during / 2));
});

test("the node comes back: its pods are answered and get the names they missed, and the leader stays", async (t) => {
  const joined = performance.now();
  await setSecondNodeLink("up");
  await cluster.kubectl("wait", "--for=condition=Ready", "--timeout=120s", `node/${SECOND.name}`);
  t.diagnostic(`the node is Ready after ${secondsSince(joined)} s`);
  await answers(SECOND);
  await followsTo(SECOND, "meanwhile.example.com");
  t.diagnostic(`its pods are answered and have the new name after ${secondsSince(joined)} s`);
  await bothServe();
  assert.ok(await isLeaderOn(FIRST));
});

/** Converts a Deployment to a DaemonSet, which has one pod on each node. A drain does not remove these pods. */
function onEachNode({ spec, ...object }: KubeObject): KubeObject {
  const { replicas: _replicas, ...rest } = spec as Record<string, unknown>;
  return { ...object, kind: "DaemonSet", spec: rest } as KubeObject;
}

interface RawPod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly spec: { readonly nodeName?: string };
}

/** The only pod of a Switchback component or of a test workload on a node, without those that are being deleted. */
async function podOn(node: ClusterNode, namespace: string, name: string): Promise<string> {
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
async function leader(): Promise<string | undefined> {
  const { spec } = await cluster.get<{ spec: { holderIdentity?: string } }>(
    ...["-n", SYSTEM, "lease", "switchback-controller"],
  );
  return spec.holderIdentity;
}

async function isLeaderOn(node: ClusterNode): Promise<boolean> {
  return (await leader()) === (await podOn(node, SYSTEM, "controller"));
}

/** Makes the controller on this node lead, by deleting a leader on another node. */
async function leadsOn(node: ClusterNode): Promise<void> {
  await cluster.until(`the controller on ${node.name} leads`, 90, async () => {
    if (await isLeaderOn(node)) return true;
    const other = await leader();
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
async function readyEndpoints(namespace: string, service: string): Promise<string[]> {
  const of = ["-n", namespace, "endpointslices", "-l", `kubernetes.io/service-name=${service}`];
  const { items } = await cluster.get<RawSlices>(...of);
  const endpoints = items.flatMap(({ endpoints: all }) => all ?? []);
  return endpoints.filter(({ conditions }) => conditions?.ready !== false).flatMap(({ addresses }) => addresses);
}

/** Number of connections that the proxy on a node has accepted. */
async function relayedBy(node: ClusterNode): Promise<number> {
  const pod = await podOn(node, SYSTEM, "proxy");
  const path = `/api/v1/namespaces/${SYSTEM}/pods/${pod}:${HEALTH_PORT}/proxy/metrics`;
  const lines = (await cluster.kubectl("get", "--raw", path)).split("\n");
  const counts = lines.filter((line) => line.startsWith("switchback_proxy_connections_total{"));
  return counts.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

function secondsSince(started: number): string {
  return ((performance.now() - started) / 1000).toFixed(1);
}
