import assert from "node:assert/strict";
import { test } from "node:test";
import type { PublisherFacts } from "./health.ts";
import { createPublisherMetrics } from "./metrics.ts";
import { emptyPublisherState, type PublisherState } from "./publisher-state.ts";

const NOW = 2_000_000;
const empty = emptyPublisherState("coredns", "here");

/** The samples of a publisher with this state, without `writes` and `map_hash`. */
function samples(state: PublisherState, more: Partial<PublisherFacts> = {}): string[] {
  const facts = { state, failure: undefined, mapProblem: undefined, ...more };
  const { registry } = createPublisherMetrics(
    "coredns",
    () => facts,
    () => NOW,
  );
  const lines = registry.metrics().split("\n");
  return lines.filter((line) => /^switchback_publisher_(?!writes|map_hash)/.test(line)).map((line) => line.slice(21));
}

test("a publication has its names, its time, how far readers are behind, and who took it back", () => {
  const takenBack = [{ at: 1, by: "flux" }, { at: 2 }, { at: 3, by: "flux" }];
  const state = {
    ...empty,
    revision: "r1",
    names: 12,
    leftOut: 3,
    since: 1_500_000,
    behindSince: 1_900_000,
    takenBack,
  };
  assert.deepEqual(samples(state), [
    'names{publisher="coredns"} 12',
    'left_out{publisher="coredns"} 3',
    'behind_seconds{publisher="coredns"} 100',
    'stopped{publisher="coredns"} 0',
    'since_timestamp_seconds{publisher="coredns"} 1500',
    'taken_back{publisher="coredns",by="flux"} 2',
    'taken_back{publisher="coredns",by="unknown"} 1',
  ]);
});

test("without a publication there is no time; a failure comes before a problem of the map or the place", () => {
  const problem = (code: string) => ({ code, text: "why" });
  const state: PublisherState = { ...empty, stopped: 1, problem: problem("of-the-place") };
  const rest = [
    'names{publisher="coredns"} 0',
    'left_out{publisher="coredns"} 0',
    'behind_seconds{publisher="coredns"} 0',
  ];
  const line = (code: string) => `problem{publisher="coredns",code="${code}"} 1`;
  const stopped = 'stopped{publisher="coredns"} 1';
  assert.deepEqual(samples(state), [...rest, line("of-the-place"), stopped]);
  const mapProblem = problem("of-the-map");
  assert.deepEqual(samples(state, { mapProblem }), [...rest, line("of-the-map"), stopped]);
  const failure = problem("a-failure");
  assert.deepEqual(samples(state, { mapProblem, failure }), [...rest, line("a-failure"), stopped]);
});
