import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { createSelector } from "#hostmap/select-hosts.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { http } from "#lib/http/http.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { kubeletFiles, kubeletText, uidOf } from "#test/fakes/kubelet-files.ts";
import { type KubeObject, MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import { runAgent } from "./run.ts";

const AGENTS = "/namespaces/switchback-agent";
const LEASE = `/apis/coordination.k8s.io/v1${AGENTS}/leases/switchback-agent-node-1`;
const DAEMON_SET = `/apis/apps/v1${AGENTS}/daemonsets/switchback-agent`;
const NAMESPACE = "/api/v1/namespaces/shop";
const REVISION = "switchback.dev/revision";
const LIST = "switchback.dev/pod-revisions";
const NAME = /a\.example\.com/;
/** The pod revision of a pod that selects all of a map with this name. */
const podRevision = createSelector(mapOf("r1", "a.example.com"), 500)(undefined).revision;
/** The Lease is written at once, then at most once a second. */
const LEASE_MS = 1_100;
/** The DaemonSet is read this often. */
const POLL_MS = 10_000;

function mapOf(revision: string, ...names: string[]): PublishedMap {
  return publishedMapOf(revision, new Map(names.map((name) => [name, ["198.51.100.9"]])));
}

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
async function rig(t: TestContext, status: object = {}) {
  const pass = stopTime(t, 50);
  const kubelet = kubeletFiles(t);
  const kube = new MemoryKube();
  const log = new LineLog();
  const own = { node: "node-1", kubeletRoot: kubelet.root, healthPort: 0, address: "127.0.0.1" };
  const config = parseConfig({ pods: { onChange: "live" }, agent: own });
  let latest: PublishedMap | Reason | undefined;
  const maps = { found: (_: PublishedMap | Reason) => {}, inactiveMs: 0, started: 0, stopped: 0 };
  const offer = (next: PublishedMap | Reason) => {
    latest = next;
    maps.found(next);
  };
  const label = (value: string) => kube.put(NAMESPACE, { metadata: { labels: { "switchback.dev/inject": value } } });
  label("enabled");
  kube.put(DAEMON_SET, { status });
  const agent = await soon(
    runAgent(config, {
      client: kube.client,
      maps: {
        start(found) {
          maps.found = found;
          maps.started += 1;
          if (latest !== undefined) setImmediate(found, latest);
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
    offer,
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
    map: (revision: string, ...names: string[]) => offer(mapOf(revision, ...names)),
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
    await assert.rejects(runAgent(parseConfig({ agent }), deps), { code: "config-invalid", message });
    assert.deepEqual(kube.watched, []);
  });
}

test("the files of the node's pods follow the map, and the Lease says how far", async (t) => {
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
    kube.silent.add(what);
    const own = { node: "node-1", kubeletRoot: kubelet.root, healthPort: 0, address: "127.0.0.1" };
    const maps = { start: () => ({ stop: async () => {} }) };
    const deps = { client: kube.client, maps, log: new LineLog(), identity: "agent-1", now: Date.now };
    const agent = await soon(runAgent(parseConfig({ agent: own }), deps));
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
    "switchback.dev/pod-revisions": "",
    "switchback.dev/problem": "shop/pod-2: not-kubelets",
  });
  kube.remove(pathOf(2));
  await pass(LEASE_MS);
  assert.deepEqual(lease()?.annotations, { "switchback.dev/format": "1", [LIST]: podRevision, [REVISION]: "r1" });
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

test("of a namespace without the label the annotation is read, if a pod of it opted in by its own label", async (t) => {
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
  const reads = () => kube.reads.filter((path) => path === other).length;
  assert.deepEqual([reads(), agent.state.live], [1, 0]);
  kube.put(other, {});
  await pass(60_000, 1_000);
  assert.equal(agent.state.live, 0, "it is noticed within minutes");
  await pass(6 * 60_000, 1_000);
  assert.match(hosts(2), NAME);
  assert.deepEqual([hosts(1), agent.state.live], [kubeletText(), 1]);
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
    message: "map: not replaced",
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

test("alive as long as every watch hears or tries something", async (t) => {
  const { kube, pod, maps, ask, pass } = await rig(t);
  pod(1);
  await pass(2_000);
  const paths = ["/api/v1/pods", "/api/v1/namespaces"];
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

test("a change of the map that concerns no pod of the node writes no file and no Lease", async (t) => {
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
  // The renewal says the map's revision.
  await pass(30_000);
  assert.equal(lease()?.annotations?.[REVISION], "r12");
  map("r13", "other.example.com");
  await pass(LEASE_MS);
  assert.equal(kube.writes.length, writes + 2);
});

test("a node where no pod follows reads no map, and is ready; the first pod that does gets its names", async (t) => {
  const { pod, map, maps, hosts, lease, agent, ask, pass } = await rig(t);
  map("r1", "a.example.com");
  await pass(60_000, 1_000);
  assert.deepEqual([maps.started, lease()?.annotations?.[LIST]], [0, ""]);
  assert.equal((await ask("/readyz")).status, 200);
  pod(1);
  await pass(LEASE_MS);
  assert.match(hosts(1), NAME);
  assert.equal(lease()?.annotations?.[LIST], podRevision);
  assert.deepEqual([maps.started, agent.state.applied], [1, "r1"]);
});

test("ten minutes after its last pod has gone a node follows no map; the next pod gets the newest", async (t) => {
  const { kube, pod, pathOf, map, maps, hosts, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(500);
  kube.remove(pathOf(1));
  await pass(9 * 60_000, 10_000);
  assert.equal(maps.stopped, 0);
  await pass(3 * 60_000, 10_000);
  assert.deepEqual([maps.started, maps.stopped], [1, 1]);
  map("r2", "b.example.com");
  pod(2);
  await pass(500);
  assert.match(hosts(2), /b\.example\.com/);
  assert.equal(maps.started, 2);
});

test("an agent that starts again reports nothing of its pods before it has a map", async (t) => {
  const { kube, pod, map, pass, lease } = await rig(t);
  pod(1);
  await pass(5_000);
  const reported = () => kube.writes.map(({ body }) => (body as KubeObject | undefined)?.metadata.annotations?.[LIST]);
  assert.deepEqual(
    reported().filter((list) => list !== ""),
    [],
  );
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  assert.equal(lease()?.annotations?.[LIST], podRevision);
});

test("where many agents start, each begins to read at another time, and not if it is stopped before", async (t) => {
  t.mock.method(Math, "random", () => 0.5);
  const { kube, pass, stop } = await rig(t, { desiredNumberScheduled: 5_000, numberReady: 1_000 });
  const read = () => kube.reads.filter((path) => path !== DAEMON_SET);
  await pass(39_000, 1_000);
  assert.deepEqual(read(), []);
  await pass(2_000, 1_000);
  assert.deepEqual(read().toSorted(), ["/api/v1/namespaces", "/api/v1/pods"]);
  await stop();
});

test("an agent that is stopped before its turn reads nothing any more", async (t) => {
  t.mock.method(Math, "random", () => 0.5);
  const { kube, pass, stop } = await rig(t, { desiredNumberScheduled: 5_000, numberReady: 1_000 });
  await pass(1_000);
  await stop();
  await pass(60_000, 1_000);
  assert.deepEqual(
    kube.reads.filter((path) => path !== DAEMON_SET),
    [],
  );
});

test("once the DaemonSet says that it leaves, the blocks go, then the Lease; taken back, both come back", async (t) => {
  const { kube, pod, map, hosts, lease, pass } = await rig(t);
  pod(1);
  map("r1", "a.example.com");
  await pass(LEASE_MS);
  kube.put(DAEMON_SET, { metadata: { annotations: { "switchback.dev/leaving": "true" } } });
  await pass(POLL_MS + LEASE_MS);
  assert.deepEqual([hosts(1), lease()], [kubeletText(), undefined]);
  await pass(60_000);
  assert.equal(lease(), undefined, "nothing writes it again");
  kube.put(DAEMON_SET, {});
  await pass(POLL_MS + 2 * LEASE_MS);
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
  await pass(POLL_MS + LEASE_MS);
  assert.equal(hosts(1), kubeletText());
  assert.ok(log.messages.includes("lease: not deleted"));
  await stop();
});

test("an agent that stops for an upgrade leaves the files and the Lease, and closes all that it opened", async (t) => {
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

test("an agent that stops because its DaemonSet is gone first removes the blocks and the Lease", async (t) => {
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

test("garbage is collected once two sweeps have passed without a new map and without a file written", async (t) => {
  let collected = 0;
  globalThis.gc = (() => {
    collected += 1;
  }) as unknown as NodeJS.GCFunction;
  t.after(() => {
    globalThis.gc = undefined;
  });
  const { pod, map, pass } = await rig(t);
  const sweeps = async () => {
    await pass(60_000, 10_000);
    return collected;
  };
  pod(9);
  map("r1", "a.example.com");
  assert.equal(await sweeps(), 1);
  assert.equal(await sweeps(), 1);
  pod(1);
  assert.equal(await sweeps(), 2, "a file was written");
  map("r1", "a.example.com");
  assert.equal(await sweeps(), 3, "a map came, and nothing was written");
  assert.equal(await sweeps(), 3);
});
