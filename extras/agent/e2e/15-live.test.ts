import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { CERT_MANAGER } from "#test/cluster/addons/cert-manager.ts";
import type { Cluster } from "#test/cluster/cluster.ts";
import { ADMIN_KUBECONFIG, NODE_HOSTS, statePath } from "#test/cluster/node/layout.ts";
import { runIn } from "#test/cluster/node/run.ts";
import { ctr } from "#test/cluster/node/up.ts";
import { withCluster } from "#test/cluster/whole.ts";
import { certificateIsReady, ingress, orderCertificate, SHOP, TARGET } from "#test/e2e/shop.ts";
import { AGENTS, frontAddress, installSwitchback, SYSTEM, withAgent } from "#test/e2e/switchback.ts";

// With `live`, the agent of the node keeps running pods current, and nobody has to restart cert-manager.

export const needs: string[] = [];

const NAME = "live.example.com";
/** The node's hosts file. An editor left no newline at its end. */
const OF_NODE = "127.0.0.1\tlocalhost\n192.0.2.1\tnode";
const CHANGES_PROGRAM = new URL("../../../test/e2e/programs/live-changes.ts", import.meta.url).pathname;
const CHANGES = 30;
/** Lets the names of these changes go soon, and at once. */
const QUICK_REMOVAL = { vanishSeconds: 5, guardHoldSeconds: 0 };
const CONTROLLER = ["-l", "app.kubernetes.io/component=controller"];

interface Pod {
  metadata: { uid: string; name: string };
  status: { containerStatuses: Array<{ restartCount: number; containerID: string; ready: boolean }> };
}

let cluster: Cluster;
let pod: Pod;

before(async () => {
  cluster = await withCluster();
});
after(async () => {
  await cluster.kubectl("annotate", "namespace", CERT_MANAGER, "switchback.dev/on-change-");
});

async function certManager(): Promise<Pod> {
  const { items } = await cluster.get<{ items: Pod[] }>("-n", CERT_MANAGER, "pods", ...CONTROLLER);
  assert.equal(items.length, 1);
  assert.ok(items[0]);
  return items[0];
}

const hostsPath = () => statePath("kubelet", "pods", pod.metadata.uid, "etc-hosts");
const hosts = () => readFile(hostsPath(), "latin1");
const contains = (name: string) =>
  cluster.until(`${name} in the pod's hosts file`, 30, async () => (await hosts()).includes(name) || undefined);

test("the chart installs the agent, which runs under the Pod Security of its own namespace", async () => {
  pod = await certManager();
  await cluster.kubectl("annotate", "namespace", CERT_MANAGER, "switchback.dev/on-change=live", "--overwrite");
  await installSwitchback(cluster, withAgent());
  await cluster.rolledOut(AGENTS, "daemonset/switchback-agent");
  // From now on, a workload that no agent keeps current may be restarted. The tests below show no restarts, thanks to
  // the agents.
  await installSwitchback(cluster, withAgent({ restart: { namespaces: [CERT_MANAGER] }, map: QUICK_REMOVAL }));
  await cluster.rolledOut(AGENTS, "daemonset/switchback-agent");
});

test("a new Ingress, with cert-manager running: its Certificate becomes Ready by itself", async (t) => {
  const created = performance.now();
  await cluster.apply(ingress("live", NAME, "nginx", "live-tls"));
  await contains(NAME);
  t.diagnostic(`Ingress created to the name in the pod's file: ${(performance.now() - created).toFixed(0)} ms`);
  await orderCertificate(cluster, NAME, "live-tls");
  await certificateIsReady(cluster, "live-tls");
  t.diagnostic(`Ingress created to Certificate Ready: ${((performance.now() - created) / 1000).toFixed(1)} s`);
  const now = await certManager();
  assert.equal(now.metadata.uid, pod.metadata.uid, "the same pod");
  assert.deepEqual(
    now.status.containerStatuses.map(({ restartCount }) => restartCount),
    pod.status.containerStatuses.map(({ restartCount }) => restartCount),
  );
});

test("new names reach the running pod, and leave it; how soon they reach it is printed", async (t) => {
  const args = [CHANGES_PROGRAM, ADMIN_KUBECONFIG, SHOP, hostsPath(), String(CHANGES)];
  const times = JSON.parse(await runIn("node", process.execPath, ...args)) as number[];
  const [p50 = 0, p99 = 0] = [0.5, 0.99].map(
    (share) => times.toSorted((a, b) => a - b)[Math.ceil(share * CHANGES) - 1],
  );
  t.diagnostic(`Ingress created to the name in the pod's file: p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms`);
  await cluster.kubectl("-n", SHOP, "delete", "ingress", "-l", "made=changes");
  await cluster.until("the names are gone", 60, async () => !(await hosts()).includes("change-") || undefined);
});

test("no pod notices that the agent is replaced", async () => {
  const before = { text: await hosts(), changed: (await stat(hostsPath())).mtimeMs };
  await cluster.kubectl("-n", AGENTS, "rollout", "restart", "daemonset/switchback-agent");
  await cluster.rolledOut(AGENTS, "daemonset/switchback-agent");
  assert.deepEqual({ text: await hosts(), changed: (await stat(hostsPath())).mtimeMs }, before);
  assert.equal((await certManager()).metadata.uid, pod.metadata.uid);
});

test("a container that restarts gets its names again", async () => {
  const [container] = (await certManager()).status.containerStatuses;
  assert.ok(container);
  await ctr("tasks", "kill", "--signal", "SIGKILL", container.containerID.replace("containerd://", ""));
  await cluster.until("the container has restarted", 60, async () => {
    const [now] = (await certManager()).status.containerStatuses;
    return (now?.ready && now.restartCount > container.restartCount) || undefined;
  });
  await contains(NAME);
  assert.equal((await certManager()).metadata.uid, pod.metadata.uid);
});

test("names chosen for nodes are added to the node's hosts file, and everything else in it stays", async () => {
  await writeFile(NODE_HOSTS, OF_NODE);
  await installSwitchback(cluster, withAgent({ nodeHosts: { names: [NAME], hostPath: NODE_HOSTS } }));
  await cluster.rolledOut(AGENTS, "daemonset/switchback-agent");
  const front = await frontAddress(cluster, TARGET);
  const text = await cluster.until("the name in the node's file", 30, async () => {
    const now = await readFile(NODE_HOSTS, "utf8");
    return now.includes(NAME) ? now : undefined;
  });
  assert.ok(text.startsWith(OF_NODE), text);
  assert.match(text, new RegExp(`^${front}\t${NAME}\t`, "m"));
  await cluster.until("the doctor to find the node current", 30, async () => {
    const { stdout } = await cluster.switchback("doctor", "-o", "json", "--namespace", SYSTEM);
    return stdout.includes("extra-works") || undefined;
  });
});

test("without the agent, the pod's file is as the kubelet made it, and the node's file is as before", async () => {
  await installSwitchback(cluster);
  await cluster.until("the node's file is as it was", 30, async () => {
    return (await readFile(NODE_HOSTS, "utf8")) === OF_NODE || undefined;
  });
  await cluster.until("the block is gone", 30, async () => !(await hosts()).includes(NAME) || undefined);
  assert.doesNotMatch(await hosts(), /switchback/);
  await cluster.until("the agents' namespace is gone", 60, async () => {
    const { stdout } = await cluster.tool("kubectl", ["get", "namespace", AGENTS, "--ignore-not-found", "-o", "name"]);
    return stdout.trim() === "" || undefined;
  });
});
