import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProgramName } from "./programs.ts";
import { bestPeer, evaluate, type Goal, pairedRatios, type Sample, spreadOf } from "./ratios.ts";

function samples(program: ProgramName, costs: readonly number[], rates: readonly number[] = []): Sample[] {
  return costs.map((cost, round) => {
    const rate = rates[round];
    return { round, program, cost, ...(rate === undefined ? {} : { rate }) };
  });
}

test("the median and the quartiles are values of the list", () => {
  assert.deepEqual(spreadOf([5, 1, 4, 2, 3]), { median: 3, low: 2, high: 4, count: 5 });
});

test("ratios pair values of the same round; a round without a value on one side has no ratio", () => {
  const all = [...samples("linux", [10, 20, 30]), ...samples("nginx", [20, 20])];
  assert.deepEqual(pairedRatios(all, ["linux", "nginx"], "cost"), [0.5, 1]);
});

test("the best peer has the least cost or the highest rate; our proxy and the relay are not peers", () => {
  const all = [
    ...samples("haproxy", [9, 9, 9], [100, 100, 100]),
    ...samples("nginx", [8, 8, 20], [90, 90, 90]),
    ...samples("linux", [1, 1, 1], [500, 500, 500]),
    ...samples("relay", [1, 1, 1], [500, 500, 500]),
  ];
  assert.equal(bestPeer(all, "cost"), "nginx");
  assert.equal(bestPeer(all, "rate"), "haproxy");
  assert.equal(bestPeer(all, "p99"), undefined);
});

const goal: Goal = { workload: "close", metric: "cost", against: "best-peer", goal: 0.95, floor: 1.05 };

const cases = [
  [goal, 95, "goal"],
  [goal, 104, "floor"],
  [goal, 106, "MISSED"],
  [{ ...goal, metric: "rate", goal: 1.05, floor: 0.95 }, 105, "goal"],
  [{ ...goal, metric: "rate", goal: 1.05, floor: 0.95 }, 96, "floor"],
  [{ ...goal, metric: "rate", goal: 1.05, floor: 0.95 }, 94, "MISSED"],
  [{ ...goal, against: "nothing", goal: 0.6, floor: 100 }, 99, "floor"],
  [{ ...goal, against: "relay" }, 99, "not measured"],
] as const;
for (const [of, value, expected] of cases) {
  test(`${of.metric} ${value} against ${of.against}, goal ${of.goal}, floor ${of.floor}: ${expected}`, () => {
    const all = [...samples("linux", [value], [value]), ...samples("nginx", [100], [100])];
    assert.equal(evaluate(of, all, "linux").outcome, expected);
  });
}
