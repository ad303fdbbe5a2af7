import assert from "node:assert/strict";
import { test } from "node:test";
import { PROXY_PROTOCOL_KEY } from "#hostmap/metadata-keys.ts";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { configuredTarget } from "../targets/configured-target.ts";
import { targetOfService, viewService } from "../targets/service-view.ts";
import { contradictionsOf, contradictionWarnings } from "./contradictions.ts";
import type { AskableTarget } from "./decide-protocols.ts";

const HETZNER = "load-balancer.hetzner.cloud/uses-proxyprotocol";

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

/** What contradicts the answer of port 443. `others` are answers of other proxies. */
function found443(target: AskableTarget, answer: HeaderAnswer, ...others: readonly HeaderAnswer[]) {
  const seen = new Map([answer, ...others].map((each, index) => [each, [`10.0.0.${7 - index}`]]));
  return contradictionsOf(target, 443, answer, seen);
}

function codes(...[annotations, ...answers]: [Record<string, string>, HeaderAnswer, ...HeaderAnswer[]]) {
  return found443(found(annotations), ...answers).map(({ code }) => code);
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
  assert.deepEqual(found443(found({ [HETZNER]: "true" }, "v1"), "refuses-header"), []);
});

test("a configured port uses the annotations of its Service only with protocol auto", () => {
  const service = serviceWith({ [HETZNER]: "true" });
  const codesOf = (protocol: "auto" | "v1") => {
    const upstream = { service: { namespace: "edge", name: "web" } };
    const target = { name: "edge", upstream, classes: [], clusterIPs: [], ports: [{ port: 443, protocol }] };
    const configured = configuredTarget(target, { detect: true }, service);
    return found443(configured, "refuses-header").map(({ code }) => code);
  };
  assert.deepEqual(codesOf("auto"), ["header-contradicted"]);
  assert.deepEqual(codesOf("v1"), []);
});

test("the text names the annotation and its value, the answers and their proxies, and what decides", () => {
  const textOf = (...[annotations, ...answers]: Parameters<typeof codes>) =>
    found443(found(annotations), ...answers).map(({ text }) => text);
  assert.deepEqual(textOf({ [HETZNER]: "true" }, "refuses-header"), [
    `Service edge/web, port 443: its annotation ${HETZNER} is "true", but it refuses a header, or does not take one ` +
      "from the proxies; what was seen decides",
  ]);
  assert.deepEqual(textOf({ [PROXY_PROTOCOL_KEY]: "none" }, "demands-either"), [
    `Service edge/web, port 443: its annotation ${PROXY_PROTOCOL_KEY} is "none", but it demands v1 or v2; the ` +
      "annotation decides",
  ]);
  assert.deepEqual(textOf({}, "refuses-header", "demands-v1"), [
    "Service edge/web, port 443: it refuses a header (seen from 10.0.0.7), and it demands v1 (seen from 10.0.0.6): " +
      "it was just changed, or it trusts only some of the proxies",
  ]);
});

test("the value of a tenant's annotation is shown as one short line", () => {
  const key = "service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol";
  const [first] = found443(found({ [key]: `\n\u202e${"x".repeat(10_000)}` }), "refuses-header");
  assert.match(first?.text ?? "", /^[\x20-\x7e]{100,600}$/);
});

test("different answers of two proxies are reported in addition to a contradicted annotation", () => {
  assert.deepEqual(codes({}, "optional", "demands-v1"), ["header-answers-differ"]);
  assert.deepEqual(codes({ [HETZNER]: "true" }, "refuses-header", "demands-v1"), [
    "header-contradicted",
    "header-answers-differ",
  ]);
});

test("a port that another Service lends is not judged, because that Service may belong to another tenant", () => {
  const target = found({ [HETZNER]: "true" });
  const ports = target.ports.map((port) => ({ ...port, upstreamIPs: ["198.51.100.10"] }));
  assert.deepEqual(found443({ ...target, ports }, "refuses-header"), []);
});

test("the status lists five contradictions per code, and counts the others", () => {
  const all = Array.from({ length: 7 }, (_, port) => ({ code: "header-contradicted", text: `port ${port}` }));
  assert.deepEqual(contradictionWarnings(all.slice(0, 5)), all.slice(0, 5));
  const texts = contradictionWarnings(all).map(({ text }) => text);
  assert.equal(texts.length, 6);
  assert.match(texts[5] ?? "", /^2 more ports: /);
});
