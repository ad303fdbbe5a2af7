import assert from "node:assert/strict";
import { test } from "node:test";
import { CUT_CAUSES, DIAL_CAUSES, REFUSAL_CAUSES } from "../close-causes.ts";
import { CONNECT_BUCKETS, newTargetStats, observeConnect } from "../target-stats.ts";
import { Counters, newCounters, readCounters } from "./counters.ts";

test("each counter has a separate place", () => {
  const counts: [string, (counters: Counters) => void][] = [
    ["opened", (counters) => counters.opened()],
    ["closed", (counters) => counters.closed()],
    ["fromClient", (counters) => counters.fromClient(1)],
    ["fromUpstream", (counters) => counters.fromUpstream(1)],
    ...REFUSAL_CAUSES.map((cause): [string, (counters: Counters) => void] => [cause, (of) => of.refused(cause)]),
    ...DIAL_CAUSES.map((cause): [string, (counters: Counters) => void] => [cause, (of) => of.dialFailed(cause)]),
    ...CUT_CAUSES.map((cause): [string, (counters: Counters) => void] => [cause, (of) => of.cut(cause)]),
  ];
  const expected = newTargetStats();
  const block = newCounters();
  const counters = new Counters(block);
  for (const [times, [, count]] of counts.entries()) for (let time = 0; time <= times; time += 1) count(counters);
  Object.assign(expected, { accepted: 1, active: -1, clientBytes: 3, upstreamBytes: 4 });
  let times = 5;
  for (const cause of REFUSAL_CAUSES) expected.refused[cause] = times++;
  for (const cause of DIAL_CAUSES) expected.dialErrors[cause] = times++;
  for (const cause of CUT_CAUSES) expected.cut[cause] = times++;
  assert.deepEqual(readCounters([block]), expected);
});

test("a time to connect is in the bucket whose bound it does not exceed, as in the other engine", () => {
  const block = newCounters();
  const counters = new Counters(block);
  const expected = newTargetStats();
  for (const seconds of [0, ...CONNECT_BUCKETS, ...CONNECT_BUCKETS.map((bound) => bound * 1.01), 0.25]) {
    counters.connected(seconds);
    observeConnect(expected, seconds);
  }
  assert.deepEqual(readCounters([block]), expected);
});

test("a target's counters are the sum over its workers", () => {
  const blocks = [newCounters(), newCounters()];
  for (const [index, block] of blocks.entries()) {
    const counters = new Counters(block);
    counters.opened();
    counters.opened();
    counters.closed();
    counters.fromClient(10 + index);
    counters.fromUpstream(20 + index);
    counters.refused("upstream");
    counters.dialFailed("timeout");
    counters.cut("drain");
    counters.connected(0.5);
  }
  const expected = newTargetStats();
  Object.assign(expected, { accepted: 4, active: 2, clientBytes: 21, upstreamBytes: 41 });
  for (let worker = 0; worker < 2; worker += 1) observeConnect(expected, 0.5);
  Object.assign(expected.refused, { upstream: 2 });
  Object.assign(expected.dialErrors, { timeout: 2 });
  Object.assign(expected.cut, { drain: 2 });
  assert.deepEqual(readCounters(blocks), expected);
  assert.deepEqual(readCounters([]), newTargetStats());
});
