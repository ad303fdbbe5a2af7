import assert from "node:assert/strict";
import { test } from "node:test";
import { DialFailures, newDialFailures } from "./dial-failures.ts";

const addresses = Array.from({ length: 65 }, (_, index) => `192.0.2.${index}`);

test("all workers see the failure times that one worker sets, by address", () => {
  const block = newDialFailures();
  const [one, other] = [new DialFailures(block), new DialFailures(block)];
  for (const failures of [one, other]) failures.setAddresses(addresses);
  assert.equal(other.get("192.0.2.1"), undefined);
  one.set("192.0.2.0", 5);
  one.set("192.0.2.1", 7.5);
  assert.deepEqual(
    ["192.0.2.0", "192.0.2.1", "192.0.2.2"].map((address) => other.get(address)),
    [5, 7.5, undefined],
  );
  other.delete("192.0.2.0");
  assert.deepEqual([one.get("192.0.2.0"), one.get("192.0.2.1")], [undefined, 7.5]);
  assert.deepEqual([...one.keys()], []);
});

test("the first 64 addresses have a place; further and unknown addresses are not stored", () => {
  const failures = new DialFailures(newDialFailures());
  failures.setAddresses(addresses);
  for (const address of [...addresses, "10.0.0.1"]) failures.set(address, 3);
  const known = addresses.filter((address) => failures.get(address) === 3);
  assert.deepEqual(known, addresses.slice(0, 64));
  assert.deepEqual([failures.get(addresses[64] ?? ""), failures.get("10.0.0.1")], [undefined, undefined]);
  failures.delete(addresses[64] ?? "");
  failures.delete("10.0.0.1");
  assert.equal(addresses.filter((address) => failures.get(address) === 3).length, 64);
});

test("recordOutcome returns whether the previous dial of any worker connected; false for the first dial", () => {
  const block = newDialFailures();
  const [one, other] = [new DialFailures(block), new DialFailures(block)];
  one.setAddresses(["a"]);
  one.set("a", 5);
  const outcomes = [
    one.recordOutcome(true),
    other.recordOutcome(false),
    one.recordOutcome(false),
    other.recordOutcome(true),
  ];
  assert.deepEqual([...outcomes, one.recordOutcome(true)], [false, true, false, false, true]);
  assert.equal(one.get("a"), 5);
});
