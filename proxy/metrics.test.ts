import assert from "node:assert/strict";
import { test } from "node:test";
import type { ListenerStatus } from "./engine.ts";
import { createProxyMetrics } from "./metrics.ts";
import { newTargetStats, observeConnect, type TargetStats } from "./target-stats.ts";
import type { UpstreamState } from "./upstream.ts";

const STATE: UpstreamState = {
  target: "web",
  port: 443,
  host: "web.test",
  addresses: ["192.0.2.7"],
  lookupFailure: undefined,
  phase: { state: "ok" },
  since: 0,
};

function setUp() {
  const stats = new Map<string, TargetStats>();
  const listeners: ListenerStatus[] = [];
  const upstreams: UpstreamState[] = [];
  const registry = createProxyMetrics({
    engine: { stats: () => stats, listeners: () => listeners },
    upstreams: () => upstreams,
    draining: () => false,
    maxConnections: 100,
  });
  const line = async (start: string) => (await registry.metrics()).split("\n").filter((text) => text.startsWith(start));
  return { stats, listeners, upstreams, registry, line };
}

test("counters show the engine's numbers, even after several scrapes", async () => {
  const { stats, line } = setUp();
  const web = newTargetStats();
  stats.set("web", web);
  Object.assign(web, { accepted: 7, active: 2, clientBytes: 1000, upstreamBytes: 5000 });
  web.refused["limit-source"] = 3;
  web.cut["idle-timeout"] = 4;
  web.dialErrors.self = 5;
  for (let reads = 0; reads < 2; reads += 1) {
    assert.deepEqual(await line("switchback_proxy_connections_total"), [
      'switchback_proxy_connections_total{target="web"} 7',
    ]);
    assert.deepEqual(await line("switchback_proxy_connections_active"), [
      'switchback_proxy_connections_active{target="web"} 2',
    ]);
    assert.deepEqual(await line("switchback_proxy_bytes_total"), [
      'switchback_proxy_bytes_total{target="web",from="client"} 1000',
      'switchback_proxy_bytes_total{target="web",from="upstream"} 5000',
    ]);
    for (const [start, count] of [
      ['switchback_proxy_refused_total{target="web",cause="limit-source"}', 3],
      ['switchback_proxy_cut_total{target="web",cause="idle-timeout"}', 4],
      ['switchback_proxy_dial_errors_total{target="web",cause="self"}', 5],
      ['switchback_proxy_dial_errors_total{target="web",cause="timeout"}', 0],
    ] as const) {
      assert.deepEqual(await line(start), [`${start} ${count}`]);
    }
  }
  stats.delete("web");
  assert.deepEqual(await line("switchback_proxy_connections_total"), []);
});

test("the connect histogram is cumulative and ends with +Inf, sum and count", async () => {
  const { stats, line } = setUp();
  const web = newTargetStats();
  stats.set("web", web);
  for (const seconds of [0.0005, 0.0006, 0.03, 99]) observeConnect(web, seconds);
  const bucket = async (le: string) => line(`switchback_proxy_connect_seconds_bucket{target="web",le="${le}"}`);
  const counts = await Promise.all(["0.0005", "0.001", "0.025", "0.05", "5", "+Inf"].map(bucket));
  assert.deepEqual(
    counts.map(([text]) => Number(text?.split(" ")[1])),
    [1, 2, 2, 3, 3, 4],
  );
  assert.deepEqual(await line("switchback_proxy_connect_seconds_count"), [
    'switchback_proxy_connect_seconds_count{target="web"} 4',
  ]);
  const [sum] = await line("switchback_proxy_connect_seconds_sum");
  assert.ok(Math.abs(Number(sum?.split(" ")[1]) - 99.0311) < 1e-9);
});

test("an upstream that was never dialled has no state, and a failing one has 0", async () => {
  const { upstreams, line } = setUp();
  upstreams.push({ ...STATE, phase: { state: "unknown" } });
  assert.deepEqual(await line("switchback_proxy_upstream_ok"), []);
  upstreams[0] = STATE;
  assert.deepEqual(await line("switchback_proxy_upstream_ok"), [
    'switchback_proxy_upstream_ok{target="web",port="443"} 1',
  ]);
  upstreams[0] = { ...STATE, phase: { state: "failing", cause: "timeout", detail: "" }, addresses: [] };
  assert.deepEqual(await line("switchback_proxy_upstream_ok"), [
    'switchback_proxy_upstream_ok{target="web",port="443"} 0',
  ]);
  assert.deepEqual(await line("switchback_proxy_upstream_addresses"), [
    'switchback_proxy_upstream_addresses{target="web",port="443"} 0',
  ]);
});

test("removed listeners leave no series", async () => {
  const { listeners, line } = setUp();
  listeners.push({ name: "web:443", target: "web", address: "::", port: 1, bound: false });
  assert.deepEqual(await line("switchback_proxy_listener_bound"), [
    'switchback_proxy_listener_bound{listener="web:443"} 0',
  ]);
  listeners.length = 0;
  assert.deepEqual(await line("switchback_proxy_listener_bound"), []);
});

test("the gauges of the process", async () => {
  const { line } = setUp();
  assert.deepEqual(
    [await line("switchback_proxy_connections_limit"), await line("switchback_proxy_draining")],
    [["switchback_proxy_connections_limit 100"], ["switchback_proxy_draining 0"]],
  );
});

test("the names, types and labels of all series", async () => {
  const { stats, listeners, upstreams, registry } = setUp();
  stats.set("web", newTargetStats());
  listeners.push({ name: "web:443", target: "web", address: "::", port: 1, bound: true });
  upstreams.push(STATE);
  const [, ...metrics] = registry.metrics().split("# HELP ");
  const shown = metrics.map((text) => {
    const [, type = "", ...lines] = text.trimEnd().split("\n");
    const labels = new Set(lines.flatMap((line) => [...line.matchAll(/(\w+)="/g)].map(([, label]) => label)));
    return `${type.replace("# TYPE ", "")} ${[...labels].sort().join()} ${lines.length}`;
  });
  assert.deepEqual(shown, [
    "switchback_proxy_connections_total counter target 1",
    "switchback_proxy_bytes_total counter from,target 2",
    "switchback_proxy_refused_total counter cause,target 5",
    "switchback_proxy_cut_total counter cause,target 5",
    "switchback_proxy_dial_errors_total counter cause,target 6",
    "switchback_proxy_connections_active gauge target 1",
    "switchback_proxy_connect_seconds histogram le,target 16",
    "switchback_proxy_listener_bound gauge listener 1",
    "switchback_proxy_upstream_ok gauge port,target 1",
    "switchback_proxy_upstream_addresses gauge port,target 1",
    "switchback_proxy_connections_limit gauge  1",
    "switchback_proxy_draining gauge  1",
  ]);
});

test("no metric keeps a series of a removed target, listener or upstream", async () => {
  const { stats, listeners, upstreams, registry } = setUp();
  stats.set("web", newTargetStats());
  listeners.push({ name: "web:443", target: "web", address: "::", port: 1, bound: true });
  upstreams.push(STATE);
  await registry.metrics();
  stats.clear();
  for (const list of [listeners, upstreams]) list.length = 0;
  const left = (await registry.metrics()).split("\n").filter((text) => text.includes("{"));
  assert.deepEqual(left, []);
});
