import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { pod, status, workload } from "#test/fakes/doctor-changes.ts";
import { CONFIG, FORBIDDEN, HEALTHY } from "#test/fakes/doctor-facts.ts";
import { examine } from "./checks.ts";
import { type Fact, known } from "./fact.ts";
import type { ClusterFacts, NodeUpdaters, PodInfo } from "./facts.ts";
import { isLive, isUpdated } from "./live.ts";

/** The updater of one node. It works, and its pods have `r1`. */
function updater(change: object = {}, node = "node-1"): Fact<NodeUpdaters> {
  const state = { alive: true, mapRevision: "r1", podRevisions: undefined, ...change };
  return known({ all: [], of: (name) => (name === node ? state : undefined) });
}

describe("a pod whose hosts file is kept current", () => {
  const annotations = { "switchback.dev/revision": "0", "switchback.dev/on-change": "live" };
  for (const [what, updaters, expected] of [
    ["is in step when what updates its node has the map's revision", updater(), "ok pods-in-step"],
    ["is stale while it has another", updater({ mapRevision: "r0" }), "warning pod-stale"],
    ["is stale where it does not work", updater({ alive: false }), "warning pod-stale"],
    ["is stale on a node without one", updater({}, "node-2"), "warning pod-stale"],
    ["is not judged where its reports may not be read", FORBIDDEN, "unknown right-missing"],
  ] as const) {
    test(what, () => {
      const found = examine({ ...HEALTHY, ...pod({ annotations }), updaters }).filter(({ check }) => check === "pods");
      assert.deepEqual(
        found.map(({ status, code }) => `${status} ${code}`).filter((word) => word !== "ok no-pods"),
        [expected],
      );
    });
  }

  for (const [what, own, words, expected] of [
    ["by its workload's annotation", { mode: "live", modeFrom: "workload" }, {}, "ok pods-in-step"],
    [
      "unless its own says something else",
      { mode: "live", modeFrom: "workload" },
      { mine: "restart" },
      "warning pod-stale",
    ],
    [
      "unless its workload's says something else",
      { mode: "restart", modeFrom: "workload" },
      { ns: "live" },
      "warning pod-stale",
    ],
    [
      "by its namespace's, which is no word of the workload",
      { mode: "restart", modeFrom: "pod" },
      { ns: "live" },
      "ok pods-in-step",
    ],
    ["by its namespace's, where the leader is of a version that tells no modes", {}, { ns: "live" }, "ok pods-in-step"],
  ] as const) {
    test(`is one ${what}`, () => {
      const { mine, ns }: { mine?: string; ns?: string } = words;
      const annotated = { "switchback.dev/revision": "0", ...(mine && { "switchback.dev/on-change": mine }) };
      const facts = {
        ...HEALTHY,
        ...pod({ annotations: annotated }),
        ...status({ running: { workloads: [workload({ stale: 0, standing: "in-step", ...own })] } }),
        updaters: updater(),
        namespaces: known(new Map([["shop", { inject: "enabled", onChange: ns }]])),
      };
      const found = examine(facts).filter(({ check }) => check === "pods");
      assert.ok(
        found.some(({ status, code }) => `${status} ${code}` === expected),
        JSON.stringify(found),
      );
    });
  }
});

const POD: PodInfo = {
  namespace: "shop",
  name: "web",
  owner: "shop/Deployment/web",
  labels: {},
  annotations: {},
  node: "node-1",
  aliasAddresses: [],
};

/** HEALTHY with these `pods` settings in the configuration, or with an unreadable configuration. */
function configured(pods: Partial<(typeof CONFIG)["pods"]> | undefined): ClusterFacts {
  const config = pods === undefined ? FORBIDDEN : known({ ...CONFIG, pods: { ...CONFIG.pods, ...pods } });
  return { ...HEALTHY, install: { ...HEALTHY.install, config } };
}

describe("without an annotation of the pod, its workload and its namespace,", () => {
  test("the configured mode counts", () => {
    assert.equal(isLive(configured({ onChange: "live" }))(POD), true);
    assert.equal(isLive(configured({ onChange: "none" }))(POD), false);
  });

  test("the default mode counts if the configuration cannot be read", () => {
    assert.equal(isLive(configured(undefined))(POD), false);
  });

  test("unreadable annotations do not count", () => {
    const facts = { ...configured({ onChange: "live" }), namespaces: FORBIDDEN };
    assert.equal(isLive(facts)(POD), true);
    assert.equal(isLive({ ...facts, install: { ...facts.install, status: FORBIDDEN } })(POD), true);
  });
});

describe("the report of an updater", () => {
  const wanted = { podRevision: "p1", mapRevision: "r1" };

  test("counts only for the pods of its node and for its revision of the map", () => {
    const on = (node: string, mapRevision: string) =>
      isUpdated({ ...HEALTHY, updaters: updater() }, { ...POD, node }, { ...wanted, mapRevision });
    assert.deepEqual([on("node-1", "r1"), on("node-2", "r1"), on("node-1", "r2")], [true, false, false]);
  });

  test("counts for the revisions that it lists, of any map", () => {
    const updaters = updater({ mapRevision: "r0", podRevisions: ["p1"] });
    const has = (podRevision: string) => isUpdated({ ...HEALTHY, updaters }, POD, { ...wanted, podRevision });
    assert.deepEqual([has("p1"), has("p2")], [true, false]);
  });

  test("counts only while the updater works", () => {
    assert.equal(isUpdated({ ...HEALTHY, updaters: updater({ alive: false }) }, POD, wanted), false);
  });

  test("is unknown if none was read", () => {
    assert.equal(isUpdated({ ...HEALTHY, updaters: undefined }, POD, wanted), undefined);
    assert.equal(isUpdated({ ...HEALTHY, updaters: FORBIDDEN }, POD, wanted), undefined);
  });
});
