import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { pod, status, workload } from "#test/fakes/doctor-changes.ts";
import { CONFIG, FORBIDDEN, HEALTHY } from "#test/fakes/doctor-facts.ts";
import { examine } from "./checks.ts";
import type { ClusterFacts, PodInfo } from "./facts.ts";
import { known } from "./known.ts";
import { appliedByAgent, isLive } from "./live.ts";

describe("a pod whose hosts file the agent keeps current", () => {
  const annotations = { "switchback.dev/revision": "0", "switchback.dev/on-change": "live" };
  const agent = (change: object) =>
    known([{ lease: "switchback-agent-node-1", mapRevision: "r1", podRevisions: undefined, silentMs: 0, ...change }]);
  for (const [what, agents, expected] of [
    ["is in step when its node's agent has the map's revision", agent({}), "ok pods-in-step"],
    ["is stale while the agent has another", agent({ mapRevision: "r0" }), "warning pod-stale"],
    ["is stale where the agent has gone silent", agent({ silentMs: 601_000 }), "warning pod-stale"],
    ["is stale on a node without one", agent({ lease: "switchback-agent-node-2" }), "warning pod-stale"],
    ["is not judged where the Leases may not be read", FORBIDDEN, "unknown right-missing"],
  ] as const) {
    test(what, () => {
      const found = examine({ ...HEALTHY, ...pod({ annotations }), agents }).filter(({ check }) => check === "pods");
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
        agents: agent({}),
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

/** HEALTHY with `pods.<setting>` of the configuration, or without a configuration that can be read. */
function configured(pods: Partial<(typeof CONFIG)["pods"]> | undefined): ClusterFacts {
  const config = pods === undefined ? FORBIDDEN : known({ ...CONFIG, pods: { ...CONFIG.pods, ...pods } });
  return { ...HEALTHY, install: { ...HEALTHY.install, config } };
}

describe("without an annotation of the pod, its workload and its namespace,", () => {
  test("the configured mode counts", () => {
    assert.equal(isLive(configured({ onChange: "live" }))(POD), true);
    assert.equal(isLive(configured({ onChange: "none" }))(POD), false);
  });

  test("the default mode counts where there is no configuration that can be read", () => {
    assert.equal(isLive(configured(undefined))(POD), false);
  });

  test("what cannot be read does not count", () => {
    const facts = { ...configured({ onChange: "live" }), namespaces: FORBIDDEN };
    assert.equal(isLive(facts)(POD), true);
    assert.equal(isLive({ ...facts, install: { ...facts.install, status: FORBIDDEN } })(POD), true);
  });
});

describe("an agent's report counts", () => {
  const wanted = { podRevision: "p1", mapRevision: "r1" };
  const applied = (facts: ClusterFacts, silentMs: number) => {
    const agents = known([{ lease: "switchback-agent-node-1", mapRevision: "r1", podRevisions: undefined, silentMs }]);
    return appliedByAgent({ ...facts, agents }, POD, wanted);
  };

  test("for as long as configured, to the millisecond", () => {
    const facts = configured({ agentSilenceSeconds: 30 });
    assert.deepEqual([applied(facts, 30_000), applied(facts, 30_001)], [true, false]);
  });

  test("for ten minutes where there is no configuration that can be read", () => {
    assert.deepEqual([applied(configured(undefined), 600_000), applied(configured(undefined), 600_001)], [true, false]);
  });

  test("only for the pods of its node and for its revision of the map", () => {
    const agents = known([
      { lease: "switchback-agent-node-1", mapRevision: "r1", podRevisions: undefined, silentMs: 0 },
    ]);
    const on = (node: string, mapRevision: string) =>
      appliedByAgent({ ...HEALTHY, agents }, { ...POD, node }, { ...wanted, mapRevision });
    assert.deepEqual([on("node-1", "r1"), on("node-2", "r1"), on("node-1", "r2")], [true, false, false]);
  });

  test("for the revisions that its Lease lists, of any map", () => {
    const agents = known([{ lease: "switchback-agent-node-1", mapRevision: "r0", podRevisions: ["p1"], silentMs: 0 }]);
    const has = (podRevision: string) => appliedByAgent({ ...HEALTHY, agents }, POD, { ...wanted, podRevision });
    assert.deepEqual([has("p1"), has("p2")], [true, false]);
  });

  test("and is unknown where no Lease was read", () => {
    assert.equal(appliedByAgent({ ...HEALTHY, agents: undefined }, POD, wanted), undefined);
    assert.equal(appliedByAgent({ ...HEALTHY, agents: FORBIDDEN }, POD, wanted), undefined);
  });
});
