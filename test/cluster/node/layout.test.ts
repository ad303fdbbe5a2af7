import assert from "node:assert/strict";
import { test } from "node:test";
import { areTwoNodes, stackOf, withPort } from "./layout.ts";

test("the families are those of the flag, else those of the run that started this one", () => {
  assert.equal(stackOf(["node", "run.ts", "00-"]), "ipv4");
  assert.equal(stackOf(["node", "run.ts", "--dual-stack"]), "dual-stack");
  assert.equal(stackOf(["node", "run.ts", "--ipv6"], "dual-stack"), "ipv6");
  assert.equal(stackOf(["node", "--test"], "dual-stack"), "dual-stack");
  assert.throws(() => stackOf([], "ipv5"), RangeError);
});

test("so are the nodes", () => {
  assert.equal(areTwoNodes(["node", "run.ts", "--nodes", "2"]), true);
  assert.equal(areTwoNodes(["node", "run.ts", "--nodes", "1"], "2"), false);
  assert.equal(areTwoNodes(["node", "--test"], "2"), true);
  assert.equal(areTwoNodes(["node", "run.ts", "61-"]), false);
});

test("an address with a port", () => {
  assert.deepEqual([withPort("192.0.2.1", 80), withPort("2001:db8::1", 80)], ["192.0.2.1:80", "[2001:db8::1]:80"]);
});
