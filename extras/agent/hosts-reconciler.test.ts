import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { kubeletFiles, kubeletText, OWNER, uidOf } from "#test/fakes/kubelet-files.ts";
import { type DirectoryWatches, watchDirectories } from "./directory-watches.ts";
import { openHostsFiles } from "./hosts-files.ts";
import { HostsReconciler, type HostsReconcilerState, type LiveMode } from "./hosts-reconciler.ts";
import type { NodePod } from "./node-pod.ts";

const FRONT = "198.51.100.9";

function mapOf(revision: string, ...names: string[]) {
  return publishedMapOf(revision, new Map(names.map((name) => [name, [FRONT]])));
}

function podOf(index: number, more: Partial<NodePod> = {}): NodePod {
  const facts = podFacts({ metadata: { namespace: "shop", name: `pod-${index}`, uid: uidOf(index) } });
  return { ...facts, managedAliases: [], ended: false, ...more };
}

/** A reconciler of real files. Tests set the mode of a pod in `decided`. */
function start(t: TestContext, options: { watch?: boolean; now?: () => number } = {}) {
  const kubelet = kubeletFiles(t);
  const files = openHostsFiles(kubelet.pods, OWNER);
  const decided: Record<string, LiveMode> = {};
  const rounds: HostsReconcilerState[] = [];
  const none: DirectoryWatches = { add() {}, remove() {}, close() {} };
  const watches = options.watch ? watchDirectories(kubelet.pods, (uid) => follower.touched(uid), silentLogger) : none;
  const follower = new HostsReconciler({
    files,
    watches,
    decide: ({ name }) => decided[name] ?? "live",
    maxNames: 500,
    log: silentLogger,
    onRound: (state) => rounds.push(state),
    ...(options.now && { now: options.now }),
  });
  t.after(() => {
    watches.close();
    follower.stop();
    files.close();
  });
  const hosts = (index: number) => readFileSync(kubelet.path(uidOf(index)), "latin1");
  return { kubelet, follower, decided, rounds, hosts };
}

async function until(what: string, condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`timeout while waiting for ${what}`);
    await delay(5);
  }
}

test("a revision counts as applied when every following pod has it", async (t) => {
  const { kubelet, follower, decided, hosts } = start(t);
  for (const index of [1, 2, 3]) kubelet.write(uidOf(index));
  decided["pod-3"] = "no";
  follower.setMap(mapOf("r1", "a.example.com"));
  for (const index of [1, 2, 3]) follower.putPod(podOf(index));
  await follower.settled();
  assert.deepEqual([follower.state.applied, follower.state.live, follower.state.written], ["r1", 2, 2]);
  assert.match(hosts(1), /a\.example\.com/);
  assert.equal(hosts(3), kubeletText());
});

test("if it is unknown whether a pod follows, its file stays, and no revision counts as applied", async (t) => {
  const { kubelet, follower, decided, hosts } = start(t);
  kubelet.write(uidOf(1));
  follower.setMap(mapOf("r1", "a.example.com"));
  follower.putPod(podOf(1));
  await follower.settled();
  const before = hosts(1);
  decided["pod-1"] = "unknown";
  follower.setMap(mapOf("r2"));
  await follower.settled();
  assert.equal(hosts(1), before);
  assert.equal(follower.state.applied, undefined);
  decided["pod-1"] = "live";
  follower.noteAll();
  await follower.settled();
  assert.deepEqual([hosts(1), follower.state.applied], [kubeletText(), "r2"]);
});

test("a file that cannot be written is reported; no revision counts as applied until its pod is gone", async (t) => {
  const { kubelet, follower } = start(t);
  for (const index of [1, 2]) kubelet.write(uidOf(index));
  writeFileSync(kubelet.path(uidOf(2)), "127.0.0.1 localhost\n");
  follower.setMap(mapOf("r1", "a.example.com"));
  for (const index of [1, 2]) follower.putPod(podOf(index));
  await follower.settled();
  assert.equal(follower.state.applied, undefined);
  assert.deepEqual(
    follower.state.problems.map(({ pod, reason }) => [pod, reason.code]),
    [["shop/pod-2", "not-kubelets"]],
  );
  follower.removePod(uidOf(2));
  await follower.settled();
  assert.equal(follower.state.applied, "r1");
});

test("a pod without a file delays no revision, and follows as soon as the kubelet has made the file", async (t) => {
  const { kubelet, follower, hosts } = start(t, { watch: true });
  follower.setMap(mapOf("r1", "a.example.com"));
  follower.putPod(podOf(1));
  await follower.settled();
  assert.equal(follower.state.applied, "r1");
  mkdirSync(join(kubelet.pods, uidOf(1)));
  await delay(50);
  kubelet.write(uidOf(1));
  await until("the name", () => /a\.example\.com/.test(hosts(1)));
});

test("a file that the kubelet writes again gets its block again; our own write causes no further look", async (t) => {
  const { kubelet, follower, rounds, hosts } = start(t, { watch: true });
  kubelet.write(uidOf(1));
  follower.setMap(mapOf("r1", "a.example.com"));
  follower.putPod(podOf(1));
  await follower.settled();
  const whole = hosts(1);
  await delay(100);
  const calm = rounds.length;
  await delay(200);
  assert.equal(rounds.length, calm);
  truncateSync(kubelet.path(uidOf(1)));
  await delay(30);
  kubelet.write(uidOf(1));
  await until("the block", () => hosts(1) === whole);
});

test("if a container writes to its file all the time, the file is looked at less and less often", async (t) => {
  const { kubelet, follower, rounds } = start(t, { watch: true });
  kubelet.write(uidOf(1));
  follower.setMap(mapOf("r1", "a.example.com"));
  follower.putPod(podOf(1));
  await follower.settled();
  const path = kubelet.path(uidOf(1));
  const [before, end] = [rounds.length, performance.now() + 1_500];
  while (performance.now() < end) {
    appendFileSync(path, "10.0.0.1 more.example.org\n");
    await delay(5);
  }
  const looks = rounds.length - before;
  assert.ok(looks > 2 && looks < 15, `${looks} looks`);
});

test("the sweep detects changes that no event reported", async (t) => {
  const { kubelet, follower, hosts } = start(t);
  kubelet.write(uidOf(1));
  follower.setMap(mapOf("r1", "a.example.com"));
  follower.putPod(podOf(1));
  await follower.settled();
  kubelet.write(uidOf(1));
  follower.sweep();
  await follower.settled();
  assert.match(hosts(1), /a\.example\.com/);
});

test("a pod that no longer follows gets the kubelet's file back; a pod that is gone is forgotten", async (t) => {
  const { kubelet, follower, decided, hosts } = start(t);
  kubelet.write(uidOf(1));
  follower.setMap(mapOf("r1", "a.example.com"));
  follower.putPod(podOf(1));
  await follower.settled();
  assert.equal(follower.isClean, false);
  decided["pod-1"] = "no";
  follower.noteAll();
  await follower.settled();
  assert.deepEqual([hosts(1), follower.isClean], [kubeletText(), true]);
  rmSync(join(kubelet.pods, uidOf(1)), { recursive: true });
  follower.removePod(uidOf(1));
  await follower.settled();
  assert.equal(follower.state.live, 0);
});

test("the file of a pod whose containers have ended is not written", async (t) => {
  const { kubelet, follower, hosts } = start(t);
  kubelet.write(uidOf(1));
  follower.setMap(mapOf("r1", "a.example.com"));
  follower.putPod(podOf(1, { ended: true }));
  await follower.settled();
  assert.equal(hosts(1), kubeletText());
});

test("a pod that goes starts a round, so that the state of the other pods is reported", async (t) => {
  const { kubelet, follower, rounds } = start(t);
  for (const index of [1, 2]) kubelet.write(uidOf(index));
  writeFileSync(kubelet.path(uidOf(2)), "127.0.0.1 localhost\n");
  follower.setMap(mapOf("r1", "a.example.com"));
  for (const index of [1, 2]) follower.putPod(podOf(index));
  await follower.settled();
  assert.equal(rounds.at(-1)?.applied, undefined);
  const before = rounds.length;
  follower.removePod(uidOf(2));
  await follower.settled();
  assert.deepEqual([rounds.length, rounds.at(-1)?.applied], [before + 1, "r1"]);
});

test("a file that cannot be written does not prevent writes of other files", async (t) => {
  const { kubelet, follower, hosts } = start(t);
  for (const index of [1, 2, 3]) kubelet.write(uidOf(index));
  writeFileSync(kubelet.path(uidOf(2)), "127.0.0.1 localhost\n");
  follower.setMap(mapOf("r1", "a.example.com"));
  for (const index of [1, 2, 3]) follower.putPod(podOf(index));
  await follower.settled();
  for (const index of [1, 3]) assert.match(hosts(index), /a\.example\.com/);
  assert.deepEqual([follower.state.live, follower.state.written], [3, 2]);
});

test("a pod that is queued at the end of a round leads to another round", async (t) => {
  const { kubelet, follower, rounds, decided } = start(t);
  kubelet.write(uidOf(1));
  decided["pod-1"] = "unknown";
  follower.setMap(mapOf("r1", "a.example.com"));
  follower.putPod(podOf(1));
  const push = rounds.push.bind(rounds);
  rounds.push = (state) => {
    if (rounds.length === 0) {
      decided["pod-1"] = "live";
      follower.noteAll();
    }
    return push(state);
  };
  await follower.settled();
  assert.deepEqual(
    rounds.map(({ applied }) => applied),
    [undefined, "r1"],
  );
});

test("a long round lets other work run after each slice, and is reported once", async (t) => {
  let passed = 0;
  // Each pod takes longer than a slice.
  const now = () => {
    passed += 10;
    return passed;
  };
  const { kubelet, follower, rounds } = start(t, { now });
  const indexes = [1, 2, 3, 4, 5];
  for (const index of indexes) kubelet.write(uidOf(index));
  follower.setMap(mapOf("r1", "a.example.com"));
  for (const index of indexes.slice(0, -1)) follower.putPod(podOf(index));
  const written: number[] = [];
  const look = () => {
    written.push(follower.state.written);
    // This pod joins the running round.
    if (written.length === 2) follower.putPod(podOf(5));
    if (rounds.length === 0) setImmediate(look);
  };
  setImmediate(look);
  await follower.settled();
  assert.deepEqual(
    [written.slice(0, 4), rounds.map((round) => [round.written, round.applied])],
    [[1, 2, 3, 4], [[5, "r1"]]],
  );
});

test("after a stop, no queued or touched pod is looked at", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { kubelet, follower, hosts, rounds } = start(t);
  for (const index of [1, 2]) kubelet.write(uidOf(index));
  follower.setMap(mapOf("r1", "a.example.com"));
  follower.putPod(podOf(1));
  await follower.settled();
  const text = kubelet.write(uidOf(1));
  follower.touched(uidOf(1));
  follower.putPod(podOf(2));
  follower.stop();
  const before = rounds.length;
  follower.noteAll();
  await follower.settled();
  t.mock.timers.tick(60_000);
  await follower.settled();
  assert.deepEqual([hosts(1), hosts(2), rounds.length], [text, kubeletText(), before]);
});
