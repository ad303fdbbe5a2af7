import assert from "node:assert/strict";
import { test } from "node:test";
import { AVOID_MS, CandidateOrder } from "./upstream-candidates.ts";

const ABC = ["a", "b", "c"];

test("addresses are tried round robin, and each list has all of them", () => {
  const order = new CandidateOrder();
  const lists = [0, 1, 2, 3].map((now) => order.next(ABC, now).join(""));
  assert.deepEqual(lists, ["abc", "bca", "cab", "abc"]);
  const pairs = new CandidateOrder();
  assert.deepEqual(
    [pairs.next(["a", "b"], 0), pairs.next(["a", "b"], 0)],
    [
      ["a", "b"],
      ["b", "a"],
    ],
  );
});

test("the first address's family is tried before the other one, because only the first address is asked", () => {
  const order = new CandidateOrder();
  const all = ["192.0.2.1", "2001:db8::1", "192.0.2.2"];
  assert.deepEqual(order.next(all, 0), ["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
  assert.deepEqual(order.next(all, 0), ["192.0.2.2", "192.0.2.1", "2001:db8::1"]);
  const dual = ["2001:db8::1", "192.0.2.1"];
  assert.deepEqual([order.next(dual, 0), order.next(dual, 0)], [dual, dual]);
  order.failed("2001:db8::1", 0);
  assert.deepEqual(order.next(dual, 1), ["192.0.2.1", "2001:db8::1"]);
  assert.deepEqual(order.next(dual, AVOID_MS), dual);
});

test("an address that failed is last for ten seconds, or until it works", () => {
  const order = new CandidateOrder();
  order.failed("a", 0);
  assert.deepEqual(
    [order.next(ABC, 1).join(""), order.next(ABC, 1).join(""), order.next(ABC, 1).join("")],
    ["bca", "bca", "cba"],
  );
  assert.equal(order.next(ABC, 9_999).join(""), "bca");
  assert.equal(order.next(ABC, 10_000).join(""), "bca");
  assert.equal(order.next(ABC, 10_000).join(""), "cab");
  assert.equal(order.next(ABC, AVOID_MS).join(""), "abc");
  order.failed("b", AVOID_MS);
  order.connected("b");
  assert.equal(order.next(ABC, AVOID_MS).join(""), "bca");
});

test("if all addresses have failed, all are tried", () => {
  const order = new CandidateOrder();
  for (const address of ABC) order.failed(address, 0);
  assert.deepEqual([...order.next(ABC, 1)].sort(), ABC);
});

test("the failure of an address is forgotten when the address is removed", () => {
  const order = new CandidateOrder();
  order.failed("a", 0);
  order.next(["x"], 1);
  assert.equal(order.next(["a", "b"], 2)[0], "a");
});

test("lists of no or one address are unchanged", () => {
  const order = new CandidateOrder();
  assert.deepEqual([order.next([], 0), order.next(["a"], 0)], [[], ["a"]]);
});
