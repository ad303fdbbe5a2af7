import assert from "node:assert/strict";
import { test } from "node:test";
import { parseSelector, requiredValue } from "./selectors.ts";

const labels = { app: "shop", "switchback.dev/inject": "enabled", empty: "" };

for (const [selector, expected] of [
  ["", true],
  ["app", true],
  ["none", false],
  ["!none", true],
  ["!app", false],
  ["app=shop", true],
  ["app==shop", true],
  ["app=other", false],
  ["app!=shop", false],
  ["none!=shop", true],
  ["empty=", true],
  ["app in (shop, other)", true],
  ["app in (other)", false],
  ["none notin (shop)", true],
  ["app notin (a,shop)", false],
  ["switchback.dev/inject=enabled,app in (a,shop),!none", true],
  ["switchback.dev/inject=enabled,app in (a,b)", false],
  ["constructor", false],
] as const) {
  test(`selector ${JSON.stringify(selector)} selects ${expected}`, () => {
    assert.equal(parseSelector(selector)(labels), expected);
  });
}

test("a text that is not a requirement is refused", () => {
  assert.throws(() => parseSelector("a b"), /not a requirement/);
});

test("the value that a selector requires is found", () => {
  assert.equal(requiredValue("status.phase!=Failed,spec.nodeName=node-7", "spec.nodeName"), "node-7");
  assert.equal(requiredValue("spec.nodeName!=node-7", "spec.nodeName"), undefined);
  assert.equal(requiredValue(undefined, "spec.nodeName"), undefined);
});
