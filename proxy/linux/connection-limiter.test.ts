import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ConnectionLimiter, LIMIT_SOURCE, LIMIT_TOTAL, newConnectionLimits } from "./connection-limiter.ts";

const LIMITS = { maxConnections: 3, maxConnectionsPerSource: 2 };

function source(last: number): Uint8Array {
  return Uint8Array.of(203, 0, 113, last);
}

test("the limits hold over all workers, and a place given back can be had again", () => {
  const block = newConnectionLimits(LIMITS);
  const [one, other] = [new ConnectionLimiter(block, LIMITS), new ConnectionLimiter(block, LIMITS)];
  const first = one.admit(source(1));
  assert.ok(first >= 0);
  assert.equal(other.admit(source(1)), first, "a source has one slot");
  assert.equal(one.admit(source(1)), LIMIT_SOURCE);
  assert.ok(one.admit(source(2)) >= 0);
  assert.equal(other.admit(source(3)), LIMIT_TOTAL);
  other.release(first);
  assert.equal(one.total(), 2);
  assert.equal(other.admit(source(1)), first);
});

test("an IPv4 address and its IPv6 form are one source", () => {
  const places = new ConnectionLimiter(newConnectionLimits(LIMITS), LIMITS);
  const mapped = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 203, 0, 113, 1);
  assert.equal(places.admit(source(1)), places.admit(mapped));
});

test("property: it admits what a plain count would, whoever came and went before", () => {
  const step = fc.record({ from: fc.nat(255), leaves: fc.option(fc.nat(2), { nil: undefined }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 2000, size: "max" }), (steps) => {
      const places = new ConnectionLimiter(newConnectionLimits(LIMITS), LIMITS);
      const held: { readonly from: number; readonly place: number }[] = [];
      for (const { from, leaves } of steps) {
        const [gone] = leaves === undefined ? [] : held.splice(leaves, 1);
        if (gone !== undefined) places.release(gone.place);
        const ofSource = held.filter((other) => other.from === from);
        const place = places.admit(source(from));
        if (held.length === LIMITS.maxConnections) assert.equal(place, LIMIT_TOTAL);
        else if (ofSource.length === LIMITS.maxConnectionsPerSource) assert.equal(place, LIMIT_SOURCE);
        else {
          assert.ok(place >= 0);
          if (ofSource[0] !== undefined) assert.equal(place, ofSource[0].place);
          else assert.ok(!held.some((other) => other.place === place), "no two sources share a slot");
          held.push({ from, place });
        }
        assert.equal(places.total(), held.length);
      }
    }),
  );
});

test("sources that come and go in a chosen order fill the table with marks: a search still ends", () => {
  const slotOf = (last: number): number =>
    new ConnectionLimiter(newConnectionLimits(LIMITS), LIMITS).admit(source(last));
  const bySlot = new Map(Array.from({ length: 256 }, (_, last) => [slotOf(last), last]));
  assert.equal(bySlot.size, 8, "the pods of one node are spread over all slots");
  const places = new ConnectionLimiter(newConnectionLimits(LIMITS), LIMITS);
  const stays = places.admit(source(bySlot.get(7) ?? -1));
  for (let slot = 6; slot >= 0; slot -= 1) places.release(places.admit(source(bySlot.get(slot) ?? -1)));
  const last = places.admit(source(255));
  assert.ok(last >= 0);
  places.release(last);
  places.release(stays);
  const fresh = [3, 5].map((slot) => places.admit(source(bySlot.get(slot) ?? -1)));
  assert.deepEqual(fresh, [3, 5], "with nobody left the marks are gone");
});
