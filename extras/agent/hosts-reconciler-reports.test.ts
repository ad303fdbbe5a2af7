import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createSelector } from "#hostmap/pod-selection.ts";
import { mapOf, podOf, refused, reconcilerRig as start } from "./fakes/reconciler-rig.ts";
import type { HostsReconcilerState } from "./hosts-reconciler.ts";

describe("a refused file", () => {
  it("is logged once for each reason, and when it can be written again", async (t) => {
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

  it("is not logged any more once the pod does not follow", async (t) => {
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
    it(`with ${code} is ${isLookedAtAgain ? "looked at again soon" : "left to the sweep"}`, async (t) => {
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
    it(`with ${code}, of a pod that does not follow, ${isClean ? "has no block" : "may still have one"}`, async (t) => {
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

describe("a pod that leaves", () => {
  it("has its block removed once, and is written again when it follows again", async (t) => {
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

  it("because its containers have ended no longer counts as live", async (t) => {
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

it("after a stop, no timer is left and no file is looked at", async (t) => {
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

  it("change only for pods that select a changed name; the files of other pods are not read again", async (t) => {
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

  it("and the map's revision are reported only after every pod was compared with the map", async (t) => {
    const { reconciler, map, done, begin } = start(t);
    await begin("u1");
    map("r2", "a.example.com");
    assert.equal(reconciler.state.applied, undefined);
    await done();
    assert.equal(reconciler.state.applied, "r2");
  });

  it("are empty if no pod follows, and unknown while a pod may follow", async (t) => {
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

  it("are unknown without a map; nothing is written after the map is dropped, until the next one", async (t) => {
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
