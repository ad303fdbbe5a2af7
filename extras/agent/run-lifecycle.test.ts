import assert from "node:assert/strict";
import { test } from "node:test";
import { kubeletText } from "#test/fakes/kubelet-files.ts";
import { refusal } from "#test/fakes/memory-kube.ts";
import type { KubeObject } from "#test/fakes/memory-objects.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import {
  DAEMON_SET,
  LEASE_MS,
  LIST,
  NAME,
  POLL_MS,
  podRevision,
  REVISION,
  agentRig as rig,
} from "./fakes/agent-rig.ts";

// Tests how an agent starts, when it reads the map, and what it leaves behind.

test("without a following pod, a node reads no map and is ready; the first such pod gets its names", async (t) => {
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

test("ten minutes after its last pod, a node stops following the map; the next pod gets the newest", async (t) => {
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

test("after a restart, an agent reports no pod revisions before it has a map", async (t) => {
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

test("if many agents start, each waits for a random time before it reads", async (t) => {
  t.mock.method(Math, "random", () => 0.5);
  const { kube, pod, pass, stop } = await rig(t, { desiredNumberScheduled: 5_000, numberReady: 1_000 });
  pod(1);
  const read = () => kube.reads.filter((path) => path !== DAEMON_SET);
  await pass(39_000, 1_000);
  assert.deepEqual(read(), []);
  await pass(2_000, 1_000);
  assert.deepEqual(read(), ["/api/v1/pods", "/api/v1/namespaces"]);
  await stop();
});

test("an agent that is stopped during that wait does not read", async (t) => {
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

test("when the DaemonSet is told to leave, blocks and Lease go; if that is withdrawn, both come back", async (t) => {
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

test("a Lease that cannot be deleted is logged, and the agent continues", async (t) => {
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

test("an agent that stops for an upgrade leaves files and Lease as they are, and closes what it opened", async (t) => {
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
  // The agent has not read the DaemonSet since.
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

test("garbage is collected once, after the first lists", async (t) => {
  let collected = 0;
  const { pod, map, pass } = await rig(t, {}, () => {
    collected += 1;
  });
  pod(9);
  map("r1", "a.example.com");
  assert.equal(collected, 0);
  for (let sweeps = 0; sweeps < 2; sweeps += 1) {
    await pass(60_000, 10_000);
    assert.equal(collected, 1);
  }
});
