import assert from "node:assert/strict";
import { test } from "node:test";
import { PROXY_PROTOCOL_KEY } from "#hostmap/metadata-keys.ts";
import type { HeaderAnswer, PublishedAnswer } from "#lib/documents/header-questions.ts";
import { configuredTarget } from "../targets/configured-target.ts";
import { foundName, targetOfService, viewService } from "../targets/service-view.ts";
import { contradictionsOf, contradictionWarnings } from "./contradictions.ts";

const HETZNER = "load-balancer.hetzner.cloud/uses-proxyprotocol";
const AT = "2026-11-26T05:00:00.000Z";
const OTHER = { answer: "demands-v1", at: "2026-11-26T04:59:00.000Z", by: "10.0.0.6" } as const;

function serviceWith(annotations: Readonly<Record<string, string>>, fallback: "auto" | "v1" = "auto") {
  const raw = {
    metadata: { namespace: "edge", name: "web", annotations },
    spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.9"], ports: [{ port: 443 }] },
  };
  return viewService(raw, fallback);
}

function found(annotations: Readonly<Record<string, string>>, fallback?: "auto" | "v1") {
  const target = targetOfService(serviceWith(annotations, fallback));
  return "code" in target ? assert.fail(target.text) : target;
}

function codes(annotations: Readonly<Record<string, string>>, answer: HeaderAnswer, more?: Partial<PublishedAnswer>) {
  const known = { answer, at: AT, by: "10.0.0.7", ...more };
  return contradictionsOf(found(annotations), 443, known).map(({ reason }) => reason.code);
}

for (const [stated, contradicted] of [
  ["v1", ["demands-v2", "refuses-header"]],
  ["v2", ["demands-v1", "refuses-header"]],
  ["none", ["demands-v1", "demands-v2", "demands-either"]],
] as const) {
  test(`our annotation ${stated} is contradicted only by ${contradicted.join(", ")}`, () => {
    const answers = ["demands-v1", "demands-v2", "demands-either", "optional", "refuses-header", "unknown"] as const;
    const by = answers.filter((answer) => codes({ [PROXY_PROTOCOL_KEY]: stated }, answer).length > 0);
    assert.deepEqual(by, contradicted);
    assert.deepEqual(codes({ [PROXY_PROTOCOL_KEY]: stated }, contradicted[0]), ["header-contradicted"]);
  });
}

test("a provider's annotation can be contradicted; a port without an annotation cannot", () => {
  assert.deepEqual(codes({ [HETZNER]: "true" }, "refuses-header"), ["header-contradicted"]);
  assert.deepEqual(codes({ [HETZNER]: "false" }, "demands-v1"), ["header-contradicted"]);
  assert.deepEqual(codes({}, "refuses-header"), []);
  assert.deepEqual(
    contradictionsOf(found({ [HETZNER]: "true" }, "v1"), 443, { answer: "refuses-header", at: AT, by: "" }),
    [],
  );
});

test("a configured port uses the annotations of its Service only with protocol auto", () => {
  const service = serviceWith({ [HETZNER]: "true" });
  const codesOf = (protocol: "auto" | "v1") => {
    const upstream = { service: { namespace: "edge", name: "web" } };
    const target = { name: "edge", upstream, classes: [], clusterIPs: [], ports: [{ port: 443, protocol }] };
    const known = { answer: "refuses-header", at: AT, by: "10.0.0.7" } as const;
    return contradictionsOf(configuredTarget(target, { detect: true }, service), 443, known).map(
      ({ reason }) => reason.code,
    );
  };
  assert.deepEqual(codesOf("auto"), ["header-contradicted"]);
  assert.deepEqual(codesOf("v1"), []);
});

test("the text names the annotation and its value, the answer, its time and proxy, and which of both decides", () => {
  const known = { answer: "refuses-header", at: AT, by: "10.0.0.7" } as const;
  const textOf = (annotations: Readonly<Record<string, string>>, seen: PublishedAnswer = known) =>
    contradictionsOf(found(annotations), 443, seen).map(({ reason }) => reason.text);
  assert.deepEqual(textOf({ [HETZNER]: "true" }), [
    `Service edge/web, port 443: its annotation ${HETZNER} is "true", but it refuses a header, or does not take one ` +
      `from the proxies (seen at ${AT} from 10.0.0.7); what was seen decides`,
  ]);
  assert.deepEqual(textOf({ [PROXY_PROTOCOL_KEY]: "none" }, { ...known, answer: "demands-either" }), [
    `Service edge/web, port 443: its annotation ${PROXY_PROTOCOL_KEY} is "none", but it demands v1 or v2 (seen at ` +
      `${AT} from 10.0.0.7); the annotation decides`,
  ]);
  assert.deepEqual(textOf({}, { ...known, other: OTHER }), [
    "Service edge/web, port 443: it refuses a header, or does not take one from the proxies (seen at " +
      `${AT} from 10.0.0.7), and shortly before it demands v1 (seen at ${OTHER.at} from 10.0.0.6): it was changed in ` +
      "between, or it trusts only one of the two proxies",
  ]);
});

test("the value of a tenant's annotation is shown as one short line", () => {
  const key = "service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol";
  const [first] = contradictionsOf(found({ [key]: `\n\u202e${"x".repeat(10_000)}` }), 443, {
    answer: "refuses-header",
    at: AT,
    by: "10.0.0.7",
  });
  assert.match(first?.reason.text ?? "", /^[\x20-\x7e]{100,600}$/);
});

test("different answers of two proxies are reported in addition to a contradicted annotation", () => {
  assert.deepEqual(codes({}, "optional", { other: OTHER }), ["header-answers-differ"]);
  assert.deepEqual(codes({ [HETZNER]: "true" }, "refuses-header", { other: OTHER }), [
    "header-contradicted",
    "header-answers-differ",
  ]);
});

test("a port that another Service lends is not judged, because that Service may belong to another tenant", () => {
  const target = found({ [HETZNER]: "true" });
  const ports = target.ports.map((port) => ({ ...port, upstreamIPs: ["198.51.100.10"] }));
  assert.deepEqual(contradictionsOf({ ...target, ports }, 443, { answer: "refuses-header", at: AT, by: "" }), []);
});

test("`change` differs for another value or answer, but not for another time", () => {
  const change = (value: string, answer: HeaderAnswer, at = AT) =>
    contradictionsOf(found({ [PROXY_PROTOCOL_KEY]: value }), 443, { answer, at, by: "10.0.0.7" })[0]?.change;
  const first = change("v1", "demands-v2");
  assert.ok(first);
  assert.equal(change("v1", "demands-v2", OTHER.at), first);
  assert.equal(new Set([first, change("v1", "refuses-header"), change("none", "demands-v2")]).size, 3);
});

test("the status lists five contradictions per code, and counts the others", () => {
  const target = foundName("edge", "web");
  const all = Array.from({ length: 7 }, (_, port) => ({
    ...{ target, port, at: AT, change: "", service: { namespace: "edge", name: "web" } },
    reason: { code: "header-contradicted", text: `port ${port}` },
  }));
  assert.deepEqual(
    contradictionWarnings(all.slice(0, 5)),
    all.slice(0, 5).map(({ reason }) => reason),
  );
  const texts = contradictionWarnings(all).map(({ text }) => text);
  assert.equal(texts.length, 6);
  assert.match(texts[5] ?? "", /^2 more ports: /);
});
