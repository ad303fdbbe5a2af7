import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createSelector } from "#hostmap/pod-selection.ts";
import { mapOf, podOf, refused, reconcilerRig as start } from "./fakes/reconciler-rig.ts";

describe("a round", () => {
  it("writes nothing before there is a map", async (t) => {
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

  it("looks only at pods whose file depends on something that has changed", async (t) => {
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

  it("does not report the revision while a pod is unknown, refused or not yet looked at", async (t) => {
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
  it("is looked at a moment after its file has changed, and once for many events", async (t) => {
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

  it("that had no file yet is looked at too", async (t) => {
    const { reconciler, begin, tick, outcomes } = start(t);
    outcomes.u1 = { kind: "absent" };
    await begin("u1");
    delete outcomes.u1;
    reconciler.touched("u1");
    assert.deepEqual(await tick(10), ["u1"]);
  });

  it("that does not follow, or does not exist, is left alone", async (t) => {
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
