import assert from "node:assert/strict";
import { test } from "node:test";
import { seriesIn } from "./metrics-text.ts";
import { isShown, measuredState, type PodMetrics, Traffic } from "./traffic.ts";

const pod = (name: string, ...lines: string[]): PodMetrics => ({
  pod: name,
  series: seriesIn(lines.join("\n"), isShown),
});
const accepted = (count: number, target = "edge") => `switchback_proxy_connections_total{target="${target}"} ${count}`;

test("the first scrape gives nothing; later ones give rates since the last, over all replicas and targets", () => {
  const traffic = new Traffic();
  assert.equal(traffic.take(1_000, [pod("a", accepted(10)), pod("b", accepted(100))]), undefined);
  const point = traffic.take(6_000, [pod("a", accepted(20), accepted(5, "new")), pod("b", accepted(135))]);
  assert.deepEqual([point?.at, point?.accepted], [6_000, 10]);
});

test("a restarted counter counts from 0, and a new replica gives nothing yet", () => {
  const traffic = new Traffic();
  traffic.take(0, [pod("a", accepted(1_000))]);
  assert.equal(traffic.take(1_000, [pod("a", accepted(3)), pod("b", accepted(7_000))])?.accepted, 3);
  assert.equal(traffic.take(2_000, [pod("b", accepted(7_001))])?.accepted, 1);
});

test("a value that no replica reports is unknown, not 0", () => {
  const traffic = new Traffic();
  traffic.take(0, [pod("a")]);
  const unknown = {
    open: undefined,
    accepted: undefined,
    errors: undefined,
    connectMs: undefined,
    admitted: undefined,
  };
  assert.deepEqual(traffic.take(1_000, [pod("a")]), { at: 1_000, ...unknown });
  traffic.take(2_000, [pod("a", accepted(1))]);
  assert.deepEqual(traffic.take(3_000, [pod("a", accepted(1))])?.errors, {});
});

test("errors are rates by cause over all counters; open connections are a sum; admitted pods are a rate", () => {
  const lines = (count: number) => [
    accepted(0),
    `switchback_proxy_connections_active{target="edge"} ${count}`,
    `switchback_proxy_refused_total{target="edge",cause="upstream"} ${count}`,
    `switchback_proxy_cut_total{target="edge",cause="idle"} 5`,
    `switchback_proxy_dial_errors_total{target="x",cause="upstream"} ${2 * count}`,
    `switchback_webhook_admissions_total{code="injected",opt_in="pod"} ${4 * count}`,
  ];
  const traffic = new Traffic();
  traffic.take(0, [pod("a", ...lines(1))]);
  const point = traffic.take(1_000, [pod("a", ...lines(3))]);
  assert.deepEqual([point?.errors, point?.open, point?.admitted], [{ upstream: 6 }, 3, 8]);
});

test("times are the bounds of the buckets with the median and the 99th percentile since the last scrape", () => {
  const buckets = (...counts: number[]) =>
    ["0.001", "0.01", "+Inf"].map(
      (le, index) => `switchback_proxy_connect_seconds_bucket{le="${le}"} ${counts[index]}`,
    );
  const traffic = new Traffic();
  traffic.take(0, [pod("a", ...buckets(1_000, 1_000, 1_000))]);
  assert.deepEqual(traffic.take(1_000, [pod("a", ...buckets(1_098, 1_100, 1_100))])?.connectMs, [1, 10]);
  assert.deepEqual(traffic.take(2_000, [pod("a", ...buckets(1_098, 1_100, 1_110))])?.connectMs, [10, 10]);
  assert.equal(traffic.take(3_000, [pod("a", ...buckets(1_098, 1_100, 1_110))])?.connectMs, undefined);
});

test("the state: expiry and rotation of certificates, and how many replicas reach an ingress controller", () => {
  const ok = (value: number) => `switchback_proxy_upstream_ok{target="edge",port="443"} ${value}`;
  const state = measuredState([
    pod("a", ok(1), 'switchback_certificate_expiry_timestamp_seconds{certificate="ca"} 1900000000'),
    pod("b", ok(0), 'switchback_certificates_state{code="issued"} 1', "switchback_certificates_failing 1"),
    pod("c", ok(1)),
  ]);
  assert.deepEqual(state, {
    certificates: { ca: 1_900_000_000 },
    rotation: "issued",
    rotationFails: true,
    upstreams: [{ target: "edge", port: "443", good: 2, failing: 1 }],
  });
});
