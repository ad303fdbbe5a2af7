import assert from "node:assert/strict";
import { test } from "node:test";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { renderLoadedPage, type WebhookState, webhookReadiness } from "./health.ts";
import { createInjectionCache } from "./injection-cache.ts";

const names = new Map(["a.example.com", "b.example.com"].map((name): [string, string[]] => [name, ["198.51.100.9"]]));
const map = createInjectionCache(publishedMapOf("r1", names), 7);
const problem = { code: "c", text: "why" };
const notAfter = Date.parse("2030-01-01T00:00:00Z");

function state(more: Partial<WebhookState> = {}): WebhookState {
  const serving = () => ({ notAfter, problem: undefined }) as ReturnType<WebhookState["serving"]>;
  return { map, mapProblem: undefined, serving, draining: false, ...more };
}

const GOOD = ["[+] certificate: expires 2030-01-01T00:00:00.000Z", "[+] map: revision r1, 2 names", "[+] not stopping"];

for (const [what, more, ok, changed] of [
  ["ready", {}, true, {}],
  ["without a certificate", { serving: () => ({ problem }) }, false, { 0: "[-] certificate: not loaded (c: why)" }],
  [
    "whose newer certificate cannot be used",
    { serving: () => ({ notAfter, problem }) },
    true,
    { 0: `${GOOD[0]} (c: why)` },
  ],
  ["without a map", { map: undefined }, false, { 1: "[-] map: not loaded" }],
  ["whose newer map cannot be used", { mapProblem: problem }, true, { 1: `${GOOD[1]} (c: why)` }],
  ["that is stopping", { draining: true }, false, { 2: "[-] stopping" }],
] as ReadonlyArray<readonly [string, Partial<WebhookState>, boolean, Readonly<Record<number, string>>]>) {
  test(`the readiness of a webhook ${what}`, () => {
    const text = GOOD.map((line, index) => changed[index] ?? line).join("\n");
    assert.deepEqual(webhookReadiness(state(more)), { ok, text });
  });
}

test("the page of the loaded map has its revision, the limit of names per pod, and its number of names", () => {
  const page = (more: Partial<WebhookState>) => JSON.parse(renderLoadedPage(state(more)).body);
  assert.deepEqual(page({}), { revision: "r1", maxNames: 7, names: 2 });
  assert.deepEqual(page({ map: undefined }), { revision: null, maxNames: 0, names: 0 });
});
