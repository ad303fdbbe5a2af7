import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { seriesIn } from "./metrics-text.ts";

const all = () => true;

test("reads what our own registry writes, with any text in labels", () => {
  const registry = new MetricsRegistry();
  const odd = 'a"b\\c\nd},{ e="f" 7';
  registry.gauge("plain", "help", () => 1.5);
  registry.gauge("labelled", "help", () => [[{ odd, other: "x" }, 2]]);
  registry.histogram("time_seconds", "help", [0.1]).observe(1);
  assert.deepEqual(seriesIn(registry.metrics(), all), [
    { name: "plain", labels: {}, value: 1.5 },
    { name: "labelled", labels: { odd, other: "x" }, value: 2 },
    { name: "time_seconds_bucket", labels: { le: "0.1" }, value: 0 },
    { name: "time_seconds_bucket", labels: { le: "+Inf" }, value: 1 },
    { name: "time_seconds_sum", labels: {}, value: 1 },
    { name: "time_seconds_count", labels: {}, value: 1 },
  ]);
});

test("skips lines that it cannot parse, and series that are not wanted", () => {
  const text = '# HELP a b\na 1 1700000000000\nb{ 2\n<html>\nc NaN\nd\n{x="y"} 3\ne{x="y"} +Inf\n';
  assert.deepEqual(
    seriesIn(text, (name) => name !== "c").map(({ name, value }) => [name, value]),
    [
      ["a", 1],
      ["e", Number.POSITIVE_INFINITY],
    ],
  );
});

test("a hostile answer costs time in proportion to its length", () => {
  const cost = (length: number) => {
    const before = process.cpuUsage().user;
    for (const text of [
      `a{${'x="\\'.repeat(length / 4)}} 1`,
      `a{${"x".repeat(length)}`,
      `a{${'x="",'.repeat(length / 5)}} y z`,
    ])
      seriesIn(text, all);
    return process.cpuUsage().user - before;
  };
  cost(10_000);
  assert.ok(cost(400_000) < 2_000_000);
});
