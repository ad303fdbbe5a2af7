import assert from "node:assert/strict";
import { test } from "node:test";
import { areTwoNodes, stackOf, withPort } from "./layout.ts";

test("the flag chooses the address families; without a flag, the run that started this one does", () => {
  assert.equal(stackOf(["node", "run.ts", "00-"]), "ipv4");
  assert.equal(stackOf(["node", "run.ts", "--dual-stack"]), "dual-stack");
  assert.equal(stackOf(["node", "run.ts", "--ipv6"], "dual-stack"), "ipv6");
  assert.equal(stackOf(["node", "--test"], "dual-stack"), "dual-stack");
  assert.throws(() => stackOf([], "ipv5"), RangeError);
});

test("the number of nodes is chosen in the same way", () => {
  assert.equal(areTwoNodes(["node", "run.ts", "--nodes", "2"]), true);
  assert.equal(areTwoNodes(["node", "run.ts", "--nodes", "1"], "2"), false);
  assert.equal(areTwoNodes(["node", "--test"], "2"), true);
  assert.equal(areTwoNodes(["node", "run.ts", "61-"]), false);
});

test("an address with a port", () => {
  assert.deepEqual([withPort("192.0.2.1", 80), withPort("2001:db8::1", 80)], ["192.0.2.1:80", "[2001:db8::1]:80"]);
});
