import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { countBy, MetricsRegistry } from "./metrics.ts";

/** Returns the sample lines of a scrape. */
function samples(registry: MetricsRegistry): string[] {
  return registry
    .metrics()
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
}

test("the text of a gauge, a counter and a histogram", () => {
  const registry = new MetricsRegistry();
  registry.gauge("ours_things", "Things.", () => 1.5);
  registry.gauge("ours_parts", "Parts.", () => [[{ of: "a", size: 2 }, 3]]);
  const counter = registry.counter("ours_events_total", "Events.");
  counter.inc();
  counter.inc(4);
  const histogram = registry.histogram("ours_wait_seconds", "Waits.", [0.1, 1]);
  for (const wait of [0.1, 0.25, 7]) histogram.observe(wait);
  assert.equal(registry.contentType, "text/plain; version=0.0.4; charset=utf-8");
  assert.equal(
    registry.metrics(),
    `# HELP ours_things Things.
# TYPE ours_things gauge
ours_things 1.5
# HELP ours_parts Parts.
# TYPE ours_parts gauge
ours_parts{of="a",size="2"} 3
# HELP ours_events_total Events.
# TYPE ours_events_total counter
ours_events_total 5
# HELP ours_wait_seconds Waits.
# TYPE ours_wait_seconds histogram
ours_wait_seconds_bucket{le="0.1"} 1
ours_wait_seconds_bucket{le="1"} 2
ours_wait_seconds_bucket{le="+Inf"} 3
ours_wait_seconds_sum 7.35
ours_wait_seconds_count 3
`,
  );
});

test("a counter without labels exists from the start; with labels, a series exists from its first event", () => {
  const registry = new MetricsRegistry();
  registry.counter("ours_plain_total", "p");
  const labelled = registry.labelledCounter("ours_labelled_total", "l");
  assert.deepEqual(samples(registry), ["ours_plain_total 0"]);
  for (const code of ["a", "b", "a"]) labelled.inc({ code });
  assert.deepEqual(samples(registry).slice(1), ['ours_labelled_total{code="a"} 2', 'ours_labelled_total{code="b"} 1']);
});

test("values that are kept elsewhere are read at each scrape", () => {
  const registry = new MetricsRegistry();
  let count = 1;
  registry.counterOf("ours_events_total", "e", () => count);
  registry.histogramOf("ours_wait_seconds", "w", [1], () => [{ labels: { to: "x" }, counts: [count, 2], sum: 9 }]);
  count = 5;
  assert.deepEqual(samples(registry), [
    "ours_events_total 5",
    'ours_wait_seconds_bucket{to="x",le="1"} 5',
    'ours_wait_seconds_bucket{to="x",le="+Inf"} 7',
    'ours_wait_seconds_sum{to="x"} 9',
    'ours_wait_seconds_count{to="x"} 7',
  ]);
});

test("a name can be registered only once", () => {
  const registry = new MetricsRegistry();
  registry.counter("ours_events_total", "e");
  assert.throws(() => registry.gauge("ours_events_total", "e", () => 1), /exists already/);
});

test("countBy counts values by a label", () => {
  assert.deepEqual(
    countBy("code", ["aa", "b", "ac"], (text) => text.slice(0, 1)),
    [
      [{ code: "a" }, 2],
      [{ code: "b" }, 1],
    ],
  );
});

test("no label value or help text adds a line, a label or a series, and each is read back unchanged", () => {
  const hostile = fc.string({
    unit: fc.constantFrom("\\", '"', "\n", "}", "{", ",", "=", "n", " ", "é"),
    maxLength: 12,
  });
  fc.assert(
    fc.property(hostile, hostile, (value, help) => {
      const registry = new MetricsRegistry();
      registry.gauge("ours_x", help, () => [[{ a: value, b: 1 }, 2]]);
      const lines = registry.metrics().split("\n");
      assert.equal(lines.length, 4);
      const [, read = ""] = /^ours_x\{a="((?:[^"\\]|\\["\\n])*)",b="1"\} 2$/.exec(lines[2] ?? "") ?? [undefined];
      assert.equal(unescaped(read), value);
      assert.equal(unescaped((lines[0] ?? "").replace("# HELP ours_x ", "")), help);
    }),
  );
});

/** Reads a label value or a help text as Prometheus' parser does. */
function unescaped(text: string): string {
  return text.replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char));
}
