import assert from "node:assert/strict";
import { test } from "node:test";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { answerReview } from "./admission-response.ts";
import { createInjectionCache } from "./injection-cache.ts";

const NAMES = ["a.example.com", "b.example.com"];

/** How the webhook answers, and what it records. */
function rig(maxNames = 500) {
  const log = new LineLog();
  const recorded: unknown[][] = [];
  const names = new Map(NAMES.map((name): [string, string[]] => [name, ["198.51.100.9"]]));
  const map = createInjectionCache(publishedMapOf("r", names), maxNames);
  const state = { now: 0, map: () => map as typeof map | undefined };
  const options = {
    map: () => state.map(),
    metrics: {
      registry: undefined as never,
      admitted: (code: string, optIn: string, seconds: number) => {
        assert.ok(seconds >= 0 && seconds < 10, `${seconds} s`);
        recorded.push(["admitted", code, optIn]);
      },
      warned: (code: string) => recorded.push(["warned", code]),
      refused: (status: number) => recorded.push(["refused", status]),
    },
    log,
    throttle: new LogThrottle(60_000, () => state.now),
  };
  const answer = (
    optIn: "namespace" | "pod" = "namespace",
    metadata: object = {},
    namespace: string | undefined = "shop",
  ) => {
    const object = { metadata, spec: {} };
    const request = { uid: "u", kind: { group: "", kind: "Pod" }, operation: "CREATE", namespace, object };
    return JSON.parse(answerReview(request, { optIn }, options, performance.now())).response;
  };
  return { answer, log, recorded, state };
}

const debug = (code: string, optIn = "namespace") => ({
  level: "debug",
  fields: { code, optIn, namespace: "shop" },
  message: "pod answered",
});

test("an injected pod gets the patch and no warning; it is counted, and logged only for debugging", () => {
  const { answer, log, recorded } = rig();
  const { patch, ...response } = answer();
  assert.deepEqual(response, { uid: "u", allowed: true, patchType: "JSONPatch" });
  const operations = JSON.parse(Buffer.from(patch, "base64").toString());
  assert.deepEqual(operations[0], {
    op: "add",
    path: "/spec/hostAliases",
    value: [{ ip: "198.51.100.9", hostnames: NAMES }],
  });
  assert.deepEqual([recorded, log.lines], [[["admitted", "injected", "namespace"]], [debug("injected")]]);
});

test("a pod that did not opt in gets neither a patch nor a warning", () => {
  const { answer, log, recorded } = rig();
  assert.deepEqual(answer("pod"), { uid: "u", allowed: true });
  assert.deepEqual([recorded, log.lines], [[["admitted", "not-opted-in", "pod"]], [debug("not-opted-in", "pod")]]);
});

test("the warnings of a selection are answered, counted by code and logged without their text", () => {
  const { answer, log, recorded } = rig(1);
  const metadata = { annotations: { "switchback.dev/hosts": "*,tenants_text" } };
  const { warnings } = answer("namespace", metadata);
  assert.equal(warnings.length, 2);
  assert.match(warnings[0], /tenants_text/);
  assert.deepEqual(recorded, [
    ["admitted", "injected", "namespace"],
    ["warned", "item-invalid"],
    ["warned", "over-cap"],
  ]);
  const fields = { code: "injected", namespace: "shop", warnings: ["item-invalid", "over-cap"], heldBack: 0 };
  assert.deepEqual(log.lines, [{ level: "warn", fields, message: "pod admitted with warnings" }, debug("injected")]);
});

test("a warning is logged once a minute for each namespace, and counted each time", () => {
  const { answer, log, recorded, state } = rig();
  state.map = () => undefined;
  const warned = () =>
    log.lines
      .splice(0)
      .filter(({ level }) => level === "warn")
      .map(({ fields }) => fields);
  for (const namespace of ["shop", "shop", "other", "shop"]) answer("namespace", {}, namespace);
  const line = (namespace: string, heldBack: number) => ({ code: "no-map", namespace, warnings: ["no-map"], heldBack });
  assert.deepEqual(warned(), [line("shop", 0), line("other", 0)]);
  state.now = 60_000;
  assert.deepEqual(answer().warnings, ["switchback: no hostname map is loaded yet, so this pod gets no names"]);
  assert.deepEqual(warned(), [line("shop", 2)]);
  assert.equal(recorded.filter(([what]) => what === "warned").length, 5);
});

test("a warning has at most 120 characters", () => {
  const { answer } = rig();
  const via = "x".repeat(200);
  const [ofLabel] = answer("namespace", { labels: { "switchback.dev/via": via } }).warnings;
  const [ofPod] = answer("namespace", { labels: [via] }).warnings;
  const [fault] = rig().answer("namespace", { annotations: { "switchback.dev/hosts": `${via}_` } }).warnings;
  for (const text of [ofLabel, ofPod, fault]) assert.ok(text.length > 50 && text.length <= 120, text);
});

test("a decision that fails admits the pod with a warning; its error is only in the log", () => {
  const { answer, log, recorded, state } = rig();
  state.map = () => {
    throw new Error("inner-detail");
  };
  const text = "switchback: internal error, the pod is admitted without hostAliases (see the webhook's log)";
  assert.deepEqual(answer(), { uid: "u", allowed: true, warnings: [text] });
  assert.deepEqual(recorded, [
    ["admitted", "internal-error", "namespace"],
    ["warned", "internal-error"],
  ]);
  const fields = { code: "internal-error", optIn: "namespace", error: "inner-detail" };
  assert.deepEqual(log.lines[0], { level: "error", fields, message: "the decision about a pod failed" });
  assert.equal(log.lines.length, 3);
});
