import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { createSelector } from "#hostmap/select-hosts.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { LineLog } from "#test/fakes/clock.ts";
import type { HostsFileUpdate } from "./hosts-file.ts";
import { HostsReconciler, type HostsReconcilerState, type LiveMode } from "./hosts-reconciler.ts";
import type { NodePod } from "./node-pod.ts";

const CONTENT = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n";
const refused = (code: string): HostsFileUpdate => ({ kind: "refused", reason: { code, text: `why ${code}` } });

function mapOf(revision: string, ...names: string[]): PublishedMap {
  return publishedMapOf(revision, new Map(names.map((name) => [name, ["198.51.100.9"]])));
}

const NO_ALIASES: NodePod["managedAliases"] = [];

function podOf(uid: string, more: Partial<NodePod> = {}): NodePod {
  const silent = { owner: undefined, inject: undefined, mirror: false, hosts: undefined, onChange: undefined };
  return { namespace: "shop", name: `pod-${uid}`, uid, ...silent, managedAliases: NO_ALIASES, ended: false, ...more };
}

/** A reconciler of files whose outcome the test sets; time passes only by `clock.now` and by mocked timers. */
function start(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const clock = { now: 1_000, updateMs: 0 };
  /**
   * Updates (`u1`, or `u1 removed` where no name is in the result) and, while it is counted, turns of the event
   * loop (`|`).
   */
  const calls: string[] = [];
  const watches: string[] = [];
  const stamps: Record<string, string> = {};
  const outcomes: Record<string, HostsFileUpdate> = {};
  const modes: Record<string, LiveMode> = {};
  const rounds: HostsReconcilerState[] = [];
  const log = new LineLog();
  const reconciler = new HostsReconciler({
    files: {
      update(uid, change) {
        const result = change(Buffer.from(CONTENT)).toString();
        calls.push(result.includes("example.com") ? uid : `${uid} removed`);
        clock.now += clock.updateMs;
        const outcome = outcomes[uid] ?? { kind: "written", stamp: `${uid} ${calls.length}` };
        if ("stamp" in outcome) stamps[uid] = outcome.stamp;
        return outcome;
      },
      stamp: (uid) => stamps[uid],
      close() {},
    },
    watches: { add: (uid) => watches.push(`+${uid}`), remove: (uid) => watches.push(`-${uid}`) },
    judge: ({ uid }) => modes[uid] ?? "live",
    maxNames: 500,
    log,
    onRound: (state) => rounds.push(state),
    now: () => clock.now,
  });
  t.after(() => reconciler.stop());
  const map = (revision: string, ...names: string[]) => reconciler.setMap(mapOf(revision, ...names));
  /** The calls since the last time, once nothing is left to do. */
  const done = async () => {
    await reconciler.settled();
    return calls.splice(0);
  };
  const tick = async (ms: number) => {
    t.mock.timers.tick(ms);
    return await done();
  };
  /** With a map and these pods, all written. */
  const begin = async (...uids: string[]) => {
    map("r1", "a.example.com");
    for (const uid of uids) reconciler.putPod(podOf(uid));
    await done();
    watches.length = 0;
  };
  return { reconciler, clock, calls, watches, stamps, outcomes, modes, rounds, log, map, done, tick, begin };
}

describe("a round", () => {
  it("before there is a map writes nothing", async (t) => {
    const { reconciler, done, rounds, watches } = start(t);
    reconciler.putPod(podOf("u1"));
    assert.deepEqual(await done(), []);
    assert.deepEqual(rounds, [
      { applied: undefined, podRevisions: undefined, live: 1, written: 0, problems: [], roundMs: 0 },
    ]);
    assert.deepEqual(watches, []);
  });

  it("writes each queued pod once and reports the state", async (t) => {
    const { reconciler, map, done, rounds, watches, clock, outcomes, modes } = start(t);
    clock.updateMs = 3;
    outcomes.u2 = { kind: "current", stamp: "s" };
    outcomes.u3 = { kind: "absent" };
    modes.u4 = "no";
    map("r1", "a.example.com");
    for (const uid of ["u1", "u2", "u3", "u4"]) reconciler.putPod(podOf(uid));
    clock.now += 100;
    assert.deepEqual(await done(), ["u1", "u2", "u3", "u4 removed"]);
    const podRevisions = [createSelector(mapOf("r1", "a.example.com"), 500)(undefined).revision];
    assert.deepEqual(rounds, [{ applied: "r1", podRevisions, live: 3, written: 2, problems: [], roundMs: 112 }]);
    assert.deepEqual(watches, ["+u1", "+u2", "+u3", "-u4"]);
    reconciler.noteAll();
    await done();
    assert.equal(rounds.at(-1)?.roundMs, 112, "only a round with a new map is measured");
  });

  it("yields to the event loop after 8 ms", async (t) => {
    const { reconciler, map, done, calls, clock, rounds } = start(t);
    clock.updateMs = 4;
    map("r1", "a.example.com");
    for (const uid of ["u1", "u2", "u3", "u4", "u5", "u6"]) reconciler.putPod(podOf(uid));
    const turn = () => {
      if (rounds.length > 0) return;
      calls.push("|");
      setImmediate(turn);
    };
    setImmediate(turn);
    assert.equal((await done()).join(" "), "u1 u2 | u3 u4 | u5 u6");
  });

  it("looks only at pods of which something has changed that their file depends on", async (t) => {
    const { reconciler, begin, done, map, stamps, outcomes } = start(t);
    outcomes.u2 = { kind: "absent" };
    await begin("u1", "u2");
    reconciler.noteAll();
    assert.deepEqual(await done(), ["u2"], "a file that was absent may be there now");
    reconciler.putPod(podOf("u1", { onChange: "live" }));
    assert.deepEqual(await done(), []);
    reconciler.putPod(podOf("u1", { hosts: "*.example.com" }));
    assert.deepEqual(await done(), ["u1"]);
    const managedAliases = [{ ip: "198.51.100.9", hostnames: ["b.example.com"] }];
    reconciler.putPod(podOf("u1", { hosts: "*.example.com", managedAliases }));
    assert.deepEqual(await done(), ["u1"]);
    stamps.u1 = "other";
    reconciler.putPod(podOf("u1", { hosts: "*.example.com", managedAliases }));
    assert.deepEqual(await done(), ["u1"]);
    map("r2", "a.example.com", "b.example.com");
    assert.deepEqual(await done(), ["u1", "u2"]);
  });

  it("gives a pod the names that its annotation selects", async (t) => {
    const { reconciler, map, done } = start(t);
    map("r1", "a.example.com");
    reconciler.putPod(podOf("u1", { hosts: "*.example.org" }));
    reconciler.putPod(podOf("u2", { hosts: "*.example.com" }));
    reconciler.putPod(podOf("u3", { hosts: "*.example.org" }));
    assert.deepEqual(await done(), ["u1 removed", "u2", "u3 removed"]);
  });

  it("holds the revision back while one pod is unknown, refused or not yet looked at", async (t) => {
    const { reconciler, begin, done, modes, outcomes } = start(t);
    await begin("u1", "u2");
    assert.equal(reconciler.state.applied, "r1");
    modes.u2 = "unknown";
    reconciler.noteAll();
    assert.deepEqual(await done(), []);
    assert.deepEqual([reconciler.state.applied, reconciler.state.live], [undefined, 1]);
    delete modes.u2;
    reconciler.putPod(podOf("u3"));
    assert.equal(reconciler.state.applied, undefined);
    outcomes.u3 = refused("not-kubelets");
    await done();
    assert.equal(reconciler.state.applied, undefined);
    assert.deepEqual(reconciler.state.problems, [
      { pod: "shop/pod-u3", reason: { code: "not-kubelets", text: "why not-kubelets" } },
    ]);
  });
});

describe("a refused file", () => {
  it("is logged once a reason, and when it follows again", async (t) => {
    const { reconciler, begin, done, outcomes, log } = start(t);
    await begin("u1");
    for (const code of ["not-kubelets", "not-kubelets", "write-failed", "file-empty", undefined, undefined]) {
      if (code === undefined) delete outcomes.u1;
      else outcomes.u1 = refused(code);
      reconciler.putPod(podOf("u1", { hosts: `*.example.com, n${log.lines.length}-${code}.example.com` }));
      await done();
    }
    const pod = "shop/pod-u1";
    assert.deepEqual(log.lines, [
      {
        level: "warn",
        fields: { pod, code: "not-kubelets", text: "why not-kubelets" },
        message: "hosts file: not written",
      },
      {
        level: "warn",
        fields: { pod, code: "write-failed", text: "why write-failed" },
        message: "hosts file: not written",
      },
      { level: "info", fields: { pod }, message: "hosts file: follows again" },
    ]);
  });

  it("is no news once the pod does not follow any more", async (t) => {
    const { reconciler, begin, done, outcomes, modes, log } = start(t);
    await begin("u1");
    outcomes.u1 = refused("write-failed");
    reconciler.putPod(podOf("u1", { hosts: "*.example.com" }));
    await done();
    const lines = log.lines.length;
    modes.u1 = "no";
    for (const outcome of [refused("write-failed"), { kind: "written", stamp: "s" } as const]) {
      outcomes.u1 = outcome;
      reconciler.noteAll();
      await done();
    }
    assert.deepEqual([log.lines.slice(lines), reconciler.state.problems], [[], []]);
  });

  for (const [code, isLookedAtAgain] of [
    ["file-empty", true],
    ["file-busy", true],
    ["not-kubelets", false],
    ["write-failed", false],
  ] as const) {
    it(`as ${code} is ${isLookedAtAgain ? "looked at again soon" : "left to the sweep"}`, async (t) => {
      const { reconciler, begin, done, tick, outcomes, stamps } = start(t);
      await begin();
      stamps.u1 = "of a file that is there";
      outcomes.u1 = refused(code);
      reconciler.putPod(podOf("u1"));
      assert.deepEqual(await done(), ["u1"]);
      await new Promise(setImmediate);
      assert.deepEqual(await tick(9), []);
      assert.deepEqual(await tick(1), isLookedAtAgain ? ["u1"] : []);
      reconciler.sweep();
      assert.deepEqual(await done(), ["u1"]);
    });
  }

  for (const [code, isClean] of [
    ["file-empty", false],
    ["file-busy", false],
    ["write-failed", false],
    ["not-kubelets", true],
    ["path-not-plain", true],
    ["file-too-large", true],
  ] as const) {
    it(`as ${code} of a pod that does not follow ${isClean ? "has no block" : "may still have one"}`, async (t) => {
      const { reconciler, begin, done, outcomes, modes } = start(t);
      await begin();
      modes.u1 = "no";
      outcomes.u1 = refused(code);
      reconciler.putPod(podOf("u1"));
      assert.equal(reconciler.isClean, false, "it is not yet looked at");
      assert.deepEqual(await done(), ["u1 removed"]);
      assert.equal(reconciler.isClean, isClean);
      reconciler.sweep();
      assert.deepEqual(await done(), isClean ? [] : ["u1 removed"]);
    });
  }
});

describe("the sweep", () => {
  it("looks only at files that have changed, and decides again which of the other pods follow", async (t) => {
    const { reconciler, begin, done, modes, stamps, rounds } = start(t);
    modes.u2 = "no";
    modes.u3 = "unknown";
    await begin("u1", "u2", "u3", "u4");
    const before = rounds.length;
    modes.u3 = "live";
    stamps.u4 = "other";
    reconciler.sweep();
    assert.deepEqual(await done(), ["u3", "u4"]);
    assert.equal(rounds.length, before + 1);
    reconciler.sweep();
    assert.deepEqual(await done(), []);
    modes.u2 = "live";
    reconciler.sweep();
    assert.deepEqual(await done(), ["u2"]);
    const after = rounds.length;
    reconciler.sweep();
    assert.deepEqual(await done(), []);
    assert.equal(rounds.length, after, "nothing to look at makes no round");
  });
});

describe("a touched pod", () => {
  it("is looked at a moment after its file has changed, once for many events", async (t) => {
    const { reconciler, begin, tick, watches, stamps } = start(t);
    await begin("u1");
    reconciler.touched("u1");
    assert.deepEqual([await tick(60_000), watches], [[], ["+u1"]], "our own write");
    stamps.u1 = "other";
    for (let events = 0; events < 3; events += 1) reconciler.touched("u1");
    assert.deepEqual(watches, ["+u1", "+u1"]);
    assert.deepEqual(await tick(9), []);
    assert.deepEqual(await tick(1), ["u1"]);
    assert.deepEqual(await tick(60_000), []);
    stamps.u1 = "another";
    reconciler.touched("u1");
    assert.deepEqual(await tick(19), [], "the second time it is waited for longer");
    assert.deepEqual(await tick(1), ["u1"]);
  });

  it("without a file so far is looked at, too", async (t) => {
    const { reconciler, begin, tick, outcomes } = start(t);
    outcomes.u1 = { kind: "absent" };
    await begin("u1");
    delete outcomes.u1;
    reconciler.touched("u1");
    assert.deepEqual(await tick(10), ["u1"]);
  });

  it("that does not follow, or is not there, is left alone", async (t) => {
    const { reconciler, begin, tick, modes, stamps, watches } = start(t);
    modes.u1 = "no";
    modes.u2 = "unknown";
    await begin("u1", "u2");
    for (const uid of ["u1", "u2", "u3"]) {
      stamps[uid] = "other";
      reconciler.touched(uid);
    }
    assert.deepEqual([await tick(60_000), watches], [[], []]);
  });
});

describe("a pod that leaves", () => {
  it("has its block removed once, and is written again when it is back", async (t) => {
    const { reconciler, begin, done, modes, watches } = start(t);
    await begin("u1");
    for (const [mode, expected] of [
      ["no", ["u1 removed"]],
      ["no", []],
      ["live", ["u1"]],
      ["live", []],
      ["no", ["u1 removed"]],
    ] as const) {
      modes.u1 = mode;
      reconciler.noteAll();
      assert.deepEqual(await done(), expected);
    }
    assert.deepEqual(watches, ["-u1", "+u1", "-u1"]);
  });

  it("because its containers have ended is no live pod", async (t) => {
    const { reconciler, begin, done } = start(t);
    await begin("u1");
    reconciler.putPod(podOf("u1", { ended: true }));
    assert.deepEqual(await done(), ["u1 removed"]);
    assert.deepEqual([reconciler.state.live, reconciler.isClean], [0, true]);
  });

  it("the node is forgotten: its watch, its timer and its state", async (t) => {
    const { reconciler, begin, tick, stamps, watches, rounds, outcomes } = start(t);
    await begin("u1", "u2");
    stamps.u1 = "other";
    reconciler.touched("u1");
    watches.length = 0;
    const before = rounds.length;
    reconciler.removePod("u1");
    assert.deepEqual(await tick(60_000), []);
    assert.deepEqual([watches, rounds.length, reconciler.state.live], [["-u1"], before + 1, 1]);
    reconciler.touched("u1");
    outcomes.u1 = { kind: "absent" };
    assert.deepEqual([await tick(60_000), watches], [[], ["-u1"]]);
  });
});

it("once stopped, no timer is left and nothing is looked at", async (t) => {
  const { reconciler, begin, tick, stamps } = start(t);
  await begin("u1");
  stamps.u1 = "other";
  reconciler.touched("u1");
  reconciler.noteAll();
  reconciler.stop();
  assert.deepEqual(await tick(60_000), []);
  assert.deepEqual([reconciler.state.live, reconciler.isClean], [0, true]);
});

describe("the pod revisions that are reported", () => {
  const A = { hosts: "a.example.com" };
  const B = { hosts: "b.example.com" };
  const names = ["a.example.com", "b.example.com"];
  const select = createSelector(mapOf("r1", ...names), 500);
  const [all, a, b] = [undefined, A.hosts, B.hosts].map((hosts) => select(hosts).revision);
  const listOf = (rounds: readonly HostsReconcilerState[]) => rounds.at(-1)?.podRevisions?.toSorted();

  it("are those that every pod with that selection has", async (t) => {
    const { reconciler, map, done, rounds, outcomes } = start(t);
    map("r1", ...names);
    outcomes.u3 = refused("not-kubelets");
    reconciler.putPod(podOf("u1"));
    reconciler.putPod(podOf("u2", A));
    reconciler.putPod(podOf("u3", A));
    reconciler.putPod(podOf("u4", B));
    await done();
    assert.deepEqual(listOf(rounds), [all, b].toSorted());
    assert.equal(rounds.at(-1)?.applied, undefined);
    reconciler.removePod("u3");
    await done();
    assert.deepEqual(listOf(rounds), [all, a, b].toSorted());
  });

  it("stay, and no file is read again, if the map changes in another name; a pod's that has it changes", async (t) => {
    const { reconciler, map, done, rounds } = start(t);
    map("r1", ...names);
    reconciler.putPod(podOf("u1", A));
    reconciler.putPod(podOf("u2", B));
    await done();
    map("r2", "a.example.com");
    assert.deepEqual(await done(), ["u2 removed"]);
    assert.equal(rounds.at(-1)?.applied, "r2");
    assert.ok(listOf(rounds)?.includes(a ?? ""));
    assert.ok(!listOf(rounds)?.includes(b ?? ""));
  });

  it("and the map's revision are reported when every pod was compared with the map, not before", async (t) => {
    const { reconciler, map, done, begin } = start(t);
    await begin("u1");
    map("r2", "a.example.com");
    assert.equal(reconciler.state.applied, undefined);
    await done();
    assert.equal(reconciler.state.applied, "r2");
  });

  it("are none where no pod follows, and not known as long as one of them may", async (t) => {
    const { reconciler, map, done, rounds, modes } = start(t);
    map("r1", ...names);
    modes.u1 = "no";
    reconciler.putPod(podOf("u1"));
    await done();
    assert.deepEqual(listOf(rounds), []);
    modes.u2 = "unknown";
    reconciler.putPod(podOf("u2"));
    await done();
    assert.equal(listOf(rounds), undefined);
  });

  it("are not known without a map; once it is dropped nothing is written; the next one sets all right", async (t) => {
    const { reconciler, map, done, rounds, begin } = start(t);
    await begin("u1");
    reconciler.setMap(undefined);
    reconciler.putPod(podOf("u2"));
    assert.deepEqual(await done(), []);
    assert.deepEqual([listOf(rounds), rounds.at(-1)?.applied], [undefined, undefined]);
    map("r2", "a.example.com");
    assert.deepEqual(await done(), ["u2"]);
    assert.deepEqual([listOf(rounds)?.length, rounds.at(-1)?.applied], [1, "r2"]);
  });
});
