import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { ConnectionLimiter, LIMIT_SOURCE, LIMIT_TOTAL, newConnectionLimits } from "./connection-limiter.ts";

const LIMITS = { maxConnections: 3, maxConnectionsPerSource: 2 };

function source(last: number): Uint8Array {
  return Uint8Array.of(203, 0, 113, last);
}

test("the limits apply across all workers, and a released slot can be acquired again", () => {
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
  const limiter = new ConnectionLimiter(newConnectionLimits(LIMITS), LIMITS);
  const mapped = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 203, 0, 113, 1);
  assert.equal(limiter.admit(source(1)), limiter.admit(mapped));
});

test("property: it admits exactly the connections that a plain count would, after any history", () => {
  const step = fc.record({ from: fc.nat(255), closes: fc.option(fc.nat(2), { nil: undefined }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 2000, size: "max" }), (steps) => {
      const limiter = new ConnectionLimiter(newConnectionLimits(LIMITS), LIMITS);
      const open: { readonly from: number; readonly place: number }[] = [];
      for (const { from, closes } of steps) {
        const [closed] = closes === undefined ? [] : open.splice(closes, 1);
        if (closed !== undefined) limiter.release(closed.place);
        const ofSource = open.filter((other) => other.from === from);
        const place = limiter.admit(source(from));
        if (open.length === LIMITS.maxConnections) assert.equal(place, LIMIT_TOTAL);
        else if (ofSource.length === LIMITS.maxConnectionsPerSource) assert.equal(place, LIMIT_SOURCE);
        else {
          assert.ok(place >= 0);
          if (ofSource[0] !== undefined) assert.equal(place, ofSource[0].place);
          else assert.ok(!open.some((other) => other.place === place), "no two sources share a slot");
          open.push({ from, place });
          assert.deepEqual(limiter.sourceOf(place), source(from));
        }
        assert.equal(limiter.total(), open.length);
      }
    }),
  );
});

test("a lookup still ends after a chosen order of sources has filled the table with tombstones", () => {
  const slotOf = (last: number): number =>
    new ConnectionLimiter(newConnectionLimits(LIMITS), LIMITS).admit(source(last));
  const bySlot = new Map(Array.from({ length: 256 }, (_, last) => [slotOf(last), last]));
  assert.equal(bySlot.size, 8, "the pods of one node are spread over all slots");
  const limiter = new ConnectionLimiter(newConnectionLimits(LIMITS), LIMITS);
  const staying = limiter.admit(source(bySlot.get(7) ?? -1));
  for (let slot = 6; slot >= 0; slot -= 1) limiter.release(limiter.admit(source(bySlot.get(slot) ?? -1)));
  const last = limiter.admit(source(255));
  assert.ok(last >= 0);
  limiter.release(last);
  limiter.release(staying);
  const fresh = [3, 5].map((slot) => limiter.admit(source(bySlot.get(slot) ?? -1)));
  assert.deepEqual(fresh, [3, 5], "with no connection left the tombstones are gone");
});
