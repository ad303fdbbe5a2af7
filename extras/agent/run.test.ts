import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { kubeletFiles, kubeletText, uidOf } from "#test/fakes/kubelet-files.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { AGENT_SECTIONS } from "./config.ts";
import {
  DAEMON_SET,
  LEASE,
  LEASE_MS,
  LIST,
  NAME,
  NAMESPACE,
  podRevision,
  REVISION,
  agentRig as rig,
  soon,
} from "./fakes/agent-rig.ts";
import { runAgent } from "./run.ts";

const ON_NODE = { log: new LineLog(), identity: "agent-1", node: "node-1", now: Date.now };

test("without the kubelet's directory, the agent does not start", async () => {
  const kube = new MemoryKube();
  const maps = { start: () => assert.fail("it has begun") };
  const config = parseConfig({ agent: { kubeletRoot: "/nowhere" } }, AGENT_SECTIONS);
  const message = /agent\.kubeletRoot: \/nowhere\/pods cannot/;
  await assert.rejects(runAgent(config, { ...ON_NODE, client: kube.client, maps }), {
    code: "config-invalid",
    message,
  });
  assert.deepEqual(kube.watched, []);
});

test("the files of the node's pods follow the map, and the Lease reports the revisions", async (t) => {
  const { kube, pod, map, hosts, lease, agent, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  assert.match(hosts(1), NAME);
  assert.deepEqual([lease()?.annotations?.[REVISION], lease()?.annotations?.[LIST]], ["r1", podRevision]);
  assert.deepEqual(lease()?.ownerReferences?.[0]?.uid, DAEMON_SET);
  assert.deepEqual([agent.state.applied, agent.state.live], ["r1", 1]);
  assert.deepEqual(kube.writes[0]?.path, LEASE);
});

for (const what of ["/api/v1/pods", "/api/v1/namespaces"]) {
  test(`there is no Lease before ${what} is known`, async (t) => {
    const pass = stopTime(t, 50);
    const kubelet = kubeletFiles(t);
    const kube = new MemoryKube();
    const speak = kube.hold(what);
    kube.put("/api/v1/namespaces/shop/pods/pod-1", { spec: { nodeName: "node-1" } });
    const own = { kubeletRoot: kubelet.root, healthPort: 0 };
    const maps = { start: () => ({ stop: async () => {} }) };
    const config = parseConfig({ address: "127.0.0.1", agent: own }, AGENT_SECTIONS);
    const agent = await soon(runAgent(config, { ...ON_NODE, client: kube.client, maps }));
    await pass(LEASE_MS);
    assert.deepEqual(kube.writes, []);
    speak();
    await pass(LEASE_MS);
    assert.notDeepEqual(kube.writes, []);
    await soon(agent.stop());
  });
}

test("when the last pod that is behind goes, the Lease reports that the others are in step", async (t) => {
  const { kube, kubelet, pod, pathOf, map, lease, pass } = await rig(t);
  for (const index of [1, 2]) pod(index);
  writeFileSync(kubelet.path(uidOf(2)), "127.0.0.1 localhost\n");
  await pass(500);
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  assert.deepEqual(lease()?.annotations, {
    "switchback.dev/format": "1",
    "switchback.dev/pod-revisions": "",
    "switchback.dev/problem": "shop/pod-2: not-kubelets",
  });
  kube.remove(pathOf(2));
  await pass(LEASE_MS);
  assert.deepEqual(lease()?.annotations, { "switchback.dev/format": "1", [LIST]: podRevision, [REVISION]: "r1" });
});

test("a pod that replaces another with the same name is followed, and the other is forgotten", async (t) => {
  const { pod, map, hosts, agent, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(500);
  pod(1, 7);
  await pass(500);
  assert.match(hosts(7), NAME);
  assert.equal(agent.state.live, 1);
});

test("if a namespace opts out, its pods stop following; a change of its other labels has no effect", async (t) => {
  const { kube, pod, map, hosts, label, agent, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(500);
  kube.put(NAMESPACE, { metadata: { labels: { "switchback.dev/inject": "enabled", team: "a" } } });
  await pass(500);
  assert.equal(agent.state.live, 1);
  label("disabled");
  await pass(500);
  assert.deepEqual([hosts(1), agent.state.live], [kubeletText(), 0]);
});

test("a namespace's annotation counts even if only the pod's own label opts in", async (t) => {
  const { kube, kubelet, map, hosts, agent, pass } = await rig(t);
  const other = "/api/v1/namespaces/other";
  kube.put(other, { metadata: { annotations: { "switchback.dev/on-change": "none" } } });
  for (const [index, inject] of [
    [1, undefined],
    [2, "enabled"],
  ] as const) {
    kubelet.write(uidOf(index));
    const labels = inject === undefined ? {} : { "switchback.dev/inject": inject };
    kube.put(`${other}/pods/pod-${index}`, { metadata: { uid: uidOf(index), labels }, spec: { nodeName: "node-1" } });
  }
  map("r1", "a.example.com");
  await pass(500);
  assert.equal(agent.state.live, 0);
  kube.put(other, {});
  await pass(500);
  assert.match(hosts(2), NAME);
  assert.deepEqual([hosts(1), agent.state.live], [kubeletText(), 1]);
});

test("a pod in a namespace that is new on the node follows before the watch includes that namespace", async (t) => {
  const { kube, kubelet, pod, map, hosts, agent, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(500);
  const speak = kube.hold("/api/v1/namespaces");
  const other = "/api/v1/namespaces/other";
  const label = (inject: string) => kube.put(other, { metadata: { labels: { "switchback.dev/inject": inject } } });
  label("enabled");
  kubelet.write(uidOf(2));
  kube.put(`${other}/pods/pod-2`, { metadata: { uid: uidOf(2) }, spec: { nodeName: "node-1" } });
  await pass(10_000);
  assert.match(hosts(2), NAME);
  assert.equal(kube.reads.filter((path) => path === other).length, 1);
  speak();
  await pass(500);
  label("disabled");
  await pass(500);
  assert.deepEqual([hosts(2), agent.state.live], [kubeletText(), 1]);
});

test("every file is checked every 30 s, even without an event", async (t) => {
  const { kubelet, pod, map, hosts, stop, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(500);
  // Neither an event nor the stamp shows this change: the length and the modification time are the same.
  kubelet.write(uidOf(1));
  await pass(30_000);
  assert.match(hosts(1), NAME);
  await stop();
  kubelet.write(uidOf(1));
  await pass(60_000);
  assert.equal(hosts(1), kubeletText());
});

test("ready when pods, namespaces and a map are known; the text names what is wrong", async (t) => {
  const { kubelet, pod, map, offer, log, ask, pass } = await rig(t);
  pod(1);
  await pass(500);
  const none = await ask("/readyz");
  assert.equal(none.status, 503);
  assert.match(none.text, /^\[\+\] pods of the node\n\[\+\] namespaces\n\[-\] map\n/);
  offer({ code: "index-missing", text: "no index" });
  assert.match((await ask("/readyz")).text, /\[-\] map \(index-missing: no index\)/);
  assert.deepEqual(log.lines.at(-1), {
    level: "warn",
    fields: { code: "index-missing", text: "no index" },
    message: "map: the newest version is rejected",
  });
  map("r1", "a.example.com");
  await pass(500);
  assert.match((await ask("/readyz")).text, /\[\+\] map\n1 pods follow the map, all at r1\n$/);
  offer({ code: "index-missing", text: "no index" });
  writeFileSync(kubelet.path(uidOf(1)), "127.0.0.1 localhost\n");
  map("r2", "b.example.com");
  await pass(500);
  const behind = await ask("/readyz");
  assert.equal(behind.status, 200, "a map that was there counts");
  assert.match(behind.text, /\[\+\] map\n1 pods follow the map, not all in step\nshop\/pod-1: not-kubelets: /);
  assert.match((await ask("/metrics")).text, /^switchback_agent_pods 1$/m);
});

test("live while every watch receives or tries something", async (t) => {
  const { kube, pod, maps, ask, pass } = await rig(t);
  pod(1);
  await pass(2_000);
  const paths = ["/api/v1/pods", "/api/v1/namespaces"];
  assert.deepEqual([...kube.watched].sort(), [...paths].sort());
  const later = (ms: number) => t.mock.timers.tick(ms);
  for (const silent of [undefined, ...paths]) {
    for (const path of paths) kube.bookmark(path);
    // Less than the time after which a watch counts itself as dead.
    for (let passed = 0; passed < 181_000; passed += 60_000) {
      for (const path of paths) if (path !== silent) kube.bookmark(path);
      later(60_334);
    }
    for (const path of paths) if (path !== silent) kube.bookmark(path);
    assert.equal((await ask("/healthz")).status, silent === undefined ? 200 : 503, silent ?? "none");
  }
  for (const path of paths) kube.bookmark(path);
  maps.inactiveMs = 180_001;
  assert.equal((await ask("/healthz")).status, 503);
});

test("a change of the map that concerns no pod writes no file, and no Lease before the renewal", async (t) => {
  const { kube, pathOf, pod, map, lease, agent, pass } = await rig(t);
  pod(1);
  const annotations = { "switchback.dev/hosts": "a.example.com" };
  kube.put(pathOf(1), { metadata: { uid: uidOf(1), annotations }, spec: { nodeName: "node-1" } });
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  const [written, writes] = [agent.state.written, kube.writes.length];
  const { resourceVersion } = lease() ?? {};
  for (let change = 2; change <= 12; change += 1) {
    map(`r${change}`, "a.example.com", `other-${change}.example.com`);
    await pass(LEASE_MS);
  }
  assert.equal(agent.state.applied, "r12");
  assert.deepEqual([agent.state.written, kube.writes.length], [written, writes]);
  assert.equal(lease()?.resourceVersion, resourceVersion);
  // The renewal writes the map's revision.
  await pass(30_000);
  assert.equal(lease()?.annotations?.[REVISION], "r12");
  map("r13", "other.example.com");
  await pass(LEASE_MS);
  assert.equal(kube.writes.length, writes + 2);
});
