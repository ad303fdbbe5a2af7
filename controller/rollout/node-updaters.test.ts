import assert from "node:assert/strict";
import { test } from "node:test";
import { podFacts } from "#lib/workloads/pods.ts";
import { NodeUpdaters } from "./node-updaters.ts";

test("each node is counted once, by the last report of its agent; an unknown agent is not counted", () => {
  const aliveOn = new Map<string, boolean | "unknown">([
    ["a", true],
    ["b", false],
    ["d", "unknown"],
  ]);
  const agents = new NodeUpdaters(({ node = "" }) => {
    const alive = aliveOn.get(node);
    if (alive === undefined || alive === "unknown") return alive;
    return { alive, mapRevision: undefined, podRevisions: undefined };
  });
  const workload = { nodes: new Set<string>() as ReadonlySet<string> };
  for (const [index, nodeName] of ["a", "a", "b", "c", "d"].entries()) {
    agents.of(podFacts({ metadata: { namespace: "shop", name: `p${index}`, uid: `u${index}` }, spec: { nodeName } }));
  }
  agents.place(workload, new Set(["a", "b", "c", "d"]));
  assert.deepEqual(agents.count(), { alive: 1, silent: 1, absent: 1 });
  aliveOn.set("a", false);
  assert.deepEqual([...agents.refresh()], [workload]);
  assert.deepEqual(agents.count(), { alive: 0, silent: 2, absent: 1 });
  agents.place(workload, new Set(["b"]));
  assert.deepEqual(agents.count(), { alive: 0, silent: 1, absent: 0 });
});
