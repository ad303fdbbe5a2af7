import assert from "node:assert/strict";
import { test } from "node:test";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { answerReview } from "./admission-response.ts";
import { createInjectionCache, type InjectionCache } from "./injection-cache.ts";
import { createWebhookMetrics } from "./metrics.ts";

const NAMES = ["a.example.com", "b.example.com"];
const LONG = "x".repeat(200);

/** How the webhook answers, logs and counts. */
function rig() {
  const log = new LineLog();
  const metrics = createWebhookMetrics();
  const published = publishedMapOf("r", new Map(NAMES.map((name) => [name, ["198.51.100.9"]])));
  const cache = createInjectionCache(published, 500);
  const state = { now: 0, map: (): InjectionCache | undefined => cache };
  const options = { map: () => state.map(), metrics, log, throttle: new LogThrottle(60_000, () => state.now) };
  const answer = (optIn: "namespace" | "pod" = "namespace", metadata: object = {}, namespace = "shop") => {
    const object = { metadata, spec: {} };
    const request = { uid: "u", kind: { group: "", kind: "Pod" }, operation: "CREATE", namespace, object };
    return JSON.parse(answerReview(request, { optIn }, options, performance.now())).response;
  };
  const counted = () =>
    Array.from(
      metrics.registry.metrics().matchAll(/^switchback_webhook_((?:admissions|warnings)_total\{.*\} \d+)$/gm),
      ([, sample]) => sample,
    );
  /** The fields of the lines above debug level, which are removed. */
  const logged = () =>
    log.lines.splice(0).flatMap(({ level, fields }) => (level === "debug" ? [] : [{ level, ...fields }]));
  return { answer, logged, counted, state };
}

test("a warning is logged once a minute for each namespace, and counted each time", () => {
  const { answer, logged, counted, state } = rig();
  state.map = () => undefined;
  for (const namespace of ["shop", "shop", "other", "shop"]) answer("namespace", {}, namespace);
  const line = (namespace: string, heldBack: number) => {
    return { level: "warn", code: "no-map", namespace, warnings: ["no-map"], heldBack };
  };
  assert.deepEqual(logged(), [line("shop", 0), line("other", 0)]);
  state.now = 60_000;
  assert.deepEqual(answer().warnings, ["switchback: no hostname map is loaded yet, so this pod gets no names"]);
  assert.deepEqual(logged(), [line("shop", 2)]);
  assert.deepEqual(counted().at(-1), 'warnings_total{code="no-map"} 5');
});

for (const [what, metadata] of [
  ["a label", { labels: { "switchback.dev/via": LONG } }],
  ["an item", { annotations: { "switchback.dev/hosts": `${LONG}_` } }],
] as const) {
  test(`a warning that quotes ${what} of 200 characters has at most 120`, () => {
    const [text] = rig().answer("namespace", metadata).warnings;
    assert.ok(text.length > 50 && text.length <= 120, text);
  });
}

test("a decision that fails admits the pod with a warning; its error is only in the log", () => {
  const { answer, logged, counted, state } = rig();
  state.map = () => {
    throw new Error("inner-detail");
  };
  const text = "switchback: internal error, the pod is admitted without hostAliases (see the webhook's log)";
  assert.deepEqual(answer(), { uid: "u", allowed: true, warnings: [text] });
  assert.deepEqual(counted(), [
    'admissions_total{code="internal-error",opt_in="namespace"} 1',
    'warnings_total{code="internal-error"} 1',
  ]);
  const [fault, warned] = logged();
  assert.deepEqual(fault, { level: "error", code: "internal-error", optIn: "namespace", error: "inner-detail" });
  assert.deepEqual(warned?.level, "warn");
});
