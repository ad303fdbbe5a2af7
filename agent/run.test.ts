import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { configSchema } from "../config/schema.ts";
import type { PublishedMap, Reason } from "../hostmap/types.ts";
import { publishedMapOf } from "../snapshot/published-map.ts";
import { http } from "../telemetry/http.ts";
import { LineLog } from "../test/fakes/clock.ts";
import { kubeletFiles, kubeletText, uidOf } from "../test/fakes/kubelet-files.ts";
import { MemoryKube, refusal } from "../test/fakes/memory-kube.ts";
import { settled, stopTime } from "../test/fakes/stopped-time.ts";
import { runAgent } from "./run.ts";

const AGENTS = "/namespaces/switchback-agent";
const LEASE = `/apis/coordination.k8s.io/v1${AGENTS}/leases/switchback-agent-node-1`;
const DAEMON_SETS = `/apis/apps/v1${AGENTS}/daemonsets`;
const DAEMON_SET = `${DAEMON_SETS}/switchback-agent`;
const NAMESPACE = "/api/v1/namespaces/shop";
const REVISION = "switchback.dev/revision";
const NAME = /a\.example\.com/;
/** The Lease is written at once, then at most once a second. */
const LEASE_MS = 1_100;

/** Turns of the event loop until an answer has come over the loopback. */
const MOST_TURNS = 50_000;

async function soon<T>(promise: Promise<T>): Promise<T> {
  let done = false;
  const note = () => {
    done = true;
  };
  promise.then(note, note);
  for (let turn = 0; !done && turn < MOST_TURNS; turn += 1) await new Promise(setImmediate);
  return await promise;
}

/** The agent of node-1 with real files, on a cluster in memory; time passes only in `pass`. */
async function rig(t: TestContext) {
  const pass = stopTime(t, 50);
  const kubelet = kubeletFiles(t);
  const kube = new MemoryKube();
  const log = new LineLog();
  const own = { node: "node-1", kubeletRoot: kubelet.root, healthPort: 0, address: "127.0.0.1" };
  const config = configSchema.parse({ pods: { onChange: "live" }, agent: own });
  const maps = { offer: (_: PublishedMap | Reason) => {}, inactiveMs: 0, stopped: 0 };
  const label = (value: string) => kube.put(NAMESPACE, { metadata: { labels: { "switchback.dev/inject": value } } });
  label("enabled");
  kube.put(DAEMON_SET, {});
  const agent = await soon(
    runAgent(config, {
      client: kube.client,
      maps: {
        start(found) {
          maps.offer = found;
          return {
            inactiveMs: () => maps.inactiveMs,
            stop: async () => {
              maps.stopped += 1;
            },
          };
        },
      },
      log,
      identity: "agent-1",
      now: Date.now,
    }),
  );
  let ended = false;
  const stop = async () => {
    ended = true;
    await soon(agent.stop());
  };
  t.after(async () => {
    if (!ended) await stop();
  });
  const pathOf = (index: number) => `/api/v1/namespaces/shop/pods/pod-${index}`;
  return {
    kube,
    kubelet,
    log,
    maps,
    agent,
    pass,
    stop,
    label,
    pathOf,
    /** A pod of the node with a hosts file as the kubelet writes it. */
    pod(index: number, uid = index) {
      kubelet.write(uidOf(uid));
      kube.put(pathOf(index), { metadata: { uid: uidOf(uid) }, spec: { nodeName: "node-1" } });
    },
    map: (revision: string, ...names: string[]) =>
      maps.offer(publishedMapOf(revision, new Map(names.map((name) => [name, ["198.51.100.9"]])))),
    hosts: (uid: number) => readFileSync(kubelet.path(uidOf(uid)), "latin1"),
    lease: () => kube.at(LEASE)?.metadata,
    ask: (path: string) => soon(get(agent.healthPort, path)),
  };
}

/** Status and text of a page of the health port. */
async function get(port: number, path: string): Promise<{ status: number | undefined; text: string }> {
  return await new Promise((resolve, reject) => {
    http
      .get({ host: "127.0.0.1", port, path, headers: { connection: "close" } }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        response.on("end", () => resolve({ status: response.statusCode, text }));
      })
      .on("error", reject);
  });
}

for (const [what, agent, message] of [
  ["a node", { kubeletRoot: "/tmp" }, /agent\.node/],
  [
    "the kubelet's directory",
    { node: "node-1", kubeletRoot: "/nowhere" },
    /agent\.kubeletRoot: \/nowhere\/pods cannot/,
  ],
] as const) {
  test(`without ${what} there is no agent`, async () => {
    const kube = new MemoryKube();
    const maps = { start: () => assert.fail("it has begun") };
    const deps = { client: kube.client, maps, log: new LineLog(), identity: "agent-1", now: Date.now };
    await assert.rejects(runAgent(configSchema.parse({ agent }), deps), { code: "config-invalid", message });
    assert.deepEqual(kube.watched, []);
  });
}

test("the files of the node's pods follow the map, and the Lease says how far", async (t) => {
  const { kube, pod, map, hosts, lease, agent, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  assert.match(hosts(1), NAME);
  assert.equal(lease()?.annotations?.[REVISION], "r1");
  assert.deepEqual(lease()?.ownerReferences?.[0]?.uid, DAEMON_SET);
  assert.deepEqual([agent.state.applied, agent.state.live], ["r1", 1]);
  assert.deepEqual(kube.writes[0]?.path, LEASE);
});

for (const what of ["/api/v1/pods", "/api/v1/namespaces"]) {
  test(`there is no Lease before ${what} is known`, async (t) => {
    const pass = stopTime(t, 50);
    const kubelet = kubeletFiles(t);
    const kube = new MemoryKube();
    kube.silent.add(what);
    const own = { node: "node-1", kubeletRoot: kubelet.root, healthPort: 0, address: "127.0.0.1" };
    const maps = { start: () => ({ stop: async () => {} }) };
    const deps = { client: kube.client, maps, log: new LineLog(), identity: "agent-1", now: Date.now };
    const agent = await soon(runAgent(configSchema.parse({ agent: own }), deps));
    await pass(LEASE_MS);
    assert.deepEqual(kube.writes, []);
    kube.speak(what);
    await pass(LEASE_MS);
    assert.equal(kube.writes.length, 1);
    await soon(agent.stop());
  });
}

test("when the last pod that is behind goes, the Lease says that the rest is in step", async (t) => {
  const { kube, kubelet, pod, pathOf, map, lease, pass } = await rig(t);
  for (const index of [1, 2]) pod(index);
  writeFileSync(kubelet.path(uidOf(2)), "127.0.0.1 localhost\n");
  await pass(500);
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  assert.deepEqual(lease()?.annotations, {
    "switchback.dev/format": "1",
    "switchback.dev/problem": "shop/pod-2: not-kubelets",
  });
  kube.remove(pathOf(2));
  await pass(LEASE_MS);
  assert.deepEqual(lease()?.annotations, { "switchback.dev/format": "1", [REVISION]: "r1" });
});

test("a pod that takes the place of another of its name is followed, the other is forgotten", async (t) => {
  const { pod, map, hosts, agent, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(500);
  pod(1, 7);
  await pass(500);
  assert.match(hosts(7), NAME);
  assert.equal(agent.state.live, 1);
});

test("a namespace that opts out takes its pods with it, and a change of its other labels writes nothing", async (t) => {
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

test("every file is looked at once in sweepSeconds, whatever was noticed", async (t) => {
  const { kubelet, pod, map, hosts, stop, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(500);
  // Of the same length and modification time: neither an event nor the stamp shows the change.
  kubelet.write(uidOf(1));
  await pass(30_000);
  assert.match(hosts(1), NAME);
  await stop();
  kubelet.write(uidOf(1));
  await pass(60_000);
  assert.equal(hosts(1), kubeletText());
});

test("ready once pods, namespaces and a map are known, with what is wrong in the text", async (t) => {
  const { kubelet, pod, map, maps, log, ask, pass } = await rig(t);
  pod(1);
  await pass(500);
  const none = await ask("/readyz");
  assert.equal(none.status, 503);
  assert.match(none.text, /^\[\+\] pods of the node\n\[\+\] namespaces\n\[-\] map\n/);
  maps.offer({ code: "index-missing", text: "no index" });
  assert.match((await ask("/readyz")).text, /\[-\] map \(index-missing: no index\)/);
  assert.deepEqual(log.lines.at(-1), {
    level: "warn",
    fields: { code: "index-missing", text: "no index" },
    message: "map: not replaced",
  });
  map("r1", "a.example.com");
  await pass(500);
  assert.match((await ask("/readyz")).text, /\[\+\] map\n1 pods follow the map, all at r1\n$/);
  maps.offer({ code: "index-missing", text: "no index" });
  writeFileSync(kubelet.path(uidOf(1)), "127.0.0.1 localhost\n");
  map("r2", "b.example.com");
  await pass(500);
  const behind = await ask("/readyz");
  assert.equal(behind.status, 200, "a map that was there counts");
  assert.match(behind.text, /\[\+\] map\n1 pods follow the map, not all in step\nshop\/pod-1: not-kubelets: /);
  assert.match((await ask("/metrics")).text, /^switchback_agent_pods 1$/m);
});

test("alive as long as every watch hears or tries something", async (t) => {
  const { kube, maps, ask, pass } = await rig(t);
  await pass(2_000);
  const paths = ["/api/v1/pods", "/api/v1/namespaces", DAEMON_SETS];
  assert.deepEqual([...kube.watched].sort(), [...paths].sort());
  const later = (ms: number) => t.mock.timers.tick(ms);
  for (const silent of [undefined, ...paths]) {
    for (const path of paths) kube.bookmark(path);
    // Short of what a watch itself takes for dead.
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

test("once the DaemonSet says that it leaves, the blocks go and then the Lease, and both come back if it is taken back", async (t) => {
  const { kube, pod, map, hosts, lease, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  kube.put(DAEMON_SET, { metadata: { annotations: { "switchback.dev/leaving": "true" } } });
  await pass(LEASE_MS);
  assert.deepEqual([hosts(1), lease()], [kubeletText(), undefined]);
  await pass(60_000);
  assert.equal(lease(), undefined, "nothing writes it again");
  kube.put(DAEMON_SET, {});
  await pass(2 * LEASE_MS);
  assert.match(hosts(1), NAME);
  assert.equal(lease()?.annotations?.[REVISION], "r1");
});

test("a Lease that cannot be deleted is said so, and ends nothing", async (t) => {
  const { kube, log, pod, map, hosts, stop, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  kube.onWrite = ({ method, path }) => {
    if (method === "DELETE") throw refusal(path, 500);
  };
  kube.put(DAEMON_SET, { metadata: { annotations: { "switchback.dev/leaving": "true" } } });
  await pass(LEASE_MS);
  assert.equal(hosts(1), kubeletText());
  assert.ok(log.messages.includes("lease: not deleted"));
  await stop();
});

test("an agent that is stopped for an upgrade leaves the files and the Lease, and closes all that it opened", async (t) => {
  const { kube, maps, pod, map, hosts, lease, stop, ask, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  await stop();
  assert.match(hosts(1), NAME);
  assert.equal(lease()?.annotations?.[REVISION], "r1");
  assert.deepEqual([kube.watched, maps.stopped], [[], 1]);
  const [reads, writes] = [kube.reads.length, kube.writes.length];
  map("r2", "b.example.com");
  await pass(61_000);
  assert.match(hosts(1), NAME);
  assert.deepEqual([kube.reads.length, kube.writes.length], [reads, writes]);
  await assert.rejects(ask("/healthz"));
});

test("an agent that is stopped because its DaemonSet is gone takes the blocks out and deletes the Lease first", async (t) => {
  const { kube, pod, map, hosts, lease, stop, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  // The watch has not heard of it yet.
  const deleted = Promise.withResolvers<void>();
  kube.onRead = (path) => {
    if (path === DAEMON_SET) throw refusal(path, 404);
  };
  kube.onWrite = async ({ method }) => {
    if (method === "DELETE") await deleted.promise;
  };
  let ended = false;
  const stopped = stop().then(() => {
    ended = true;
  });
  await settled();
  assert.deepEqual([hosts(1), ended], [kubeletText(), false]);
  deleted.resolve();
  await stopped;
  assert.equal(lease(), undefined);
});
