import assert from "node:assert/strict";
import { test } from "node:test";
import { CONNECT_BUCKETS, newTargetStats, observeConnect } from "./target-stats.ts";

test("a new target has zeros, one for each cause and each bucket", () => {
  assert.deepEqual(newTargetStats(), {
    accepted: 0,
    active: 0,
    clientBytes: 0,
    upstreamBytes: 0,
    refused: { "limit-total": 0, "limit-source": 0, "local-limit": 0, "client-header": 0, upstream: 0 },
    dialErrors: {
      "dns-nxdomain": 0,
      "dns-timeout": 0,
      "connection-refused": 0,
      timeout: 0,
      unreachable: 0,
      self: 0,
    },
    cut: { "client-reset": 0, "upstream-reset": 0, "idle-timeout": 0, "half-closed-timeout": 0, drain: 0 },
    connectBuckets: Array.from({ length: 14 }, () => 0),
    connectSecondsSum: 0,
  });
});

test("a time to connect is counted in the first bucket whose bound it does not exceed, or in the last", () => {
  assert.deepEqual(CONNECT_BUCKETS, [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]);
  for (const [index, bound] of CONNECT_BUCKETS.entries()) {
    const stats = newTargetStats();
    for (const seconds of [bound, bound, bound * 1.01]) observeConnect(stats, seconds);
    const counts = Array.from({ length: 14 }, () => 0);
    counts[index] = 2;
    counts[index + 1] = 1;
    assert.deepEqual([stats.connectBuckets, stats.connectSecondsSum], [counts, bound + bound + bound * 1.01]);
  }
});
