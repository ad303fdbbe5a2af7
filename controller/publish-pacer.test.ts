import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fc } from "#test/property.ts";
import { PublishPacer } from "./publish-pacer.ts";

const RULES = { publicationsPerSecond: 2, bytesPerSecond: 200_000 };

/** Publishes `bytes` whenever it is allowed. Returns the times until `end`. */
function churn(pacer: PublishPacer, start: number, end: number, bytes: number): number[] {
  const times: number[] = [];
  for (let now = start; now < end; now += Math.max(10, pacer.delay(now))) {
    if (pacer.delay(now) > 0) continue;
    pacer.spend(now, bytes);
    times.push(now);
  }
  return times;
}

describe("Pacer", () => {
  test("after a quiet time a change goes out at once, and so does one more", () => {
    const pacer = new PublishPacer(RULES);
    assert.equal(pacer.delay(1_000_000), 0);
    pacer.spend(1_000_000, 30_000);
    assert.equal(pacer.delay(1_000_010), 0);
    pacer.spend(1_000_010, 30_000);
    assert.equal(pacer.delay(1_000_020), 980);
  });

  test("one change a second never waits, even with an occasional second one beside it", () => {
    const pacer = new PublishPacer(RULES);
    for (let second = 0; second < 100; second++) {
      for (const now of second % 2 === 0 ? [second * 1000] : [second * 1000, second * 1000 + 20]) {
        assert.ok(pacer.delay(now) <= 20, `second ${second}: ${pacer.delay(now)} ms`);
        pacer.spend(now, 30_000);
      }
    }
  });

  test("under churn there are two publications a second, evenly spaced", () => {
    const times = churn(new PublishPacer(RULES), 0, 30_000, 10_000);
    const gaps = times.slice(3).map((time, index) => time - (times[index + 2] ?? 0));
    assert.deepEqual(new Set(gaps), new Set([500]));
    assert.equal(times.length, 60);
  });

  test("large publications are less frequent, so that the average holds", () => {
    const times = churn(new PublishPacer(RULES), 0, 30_000, 400_000);
    assert.equal(times.length, 15);
  });

  for (const [readers, publications] of [
    [0, 60],
    [250, 60],
    [500, 60],
    [5_000, 10],
  ] as const) {
    test(`with ${readers} readers 30 KB are published ${publications} times in 30 s`, () => {
      assert.equal(churn(new PublishPacer(RULES, () => readers), 0, 30_000, 30_000).length, publications);
    });
  }

  test("a large publication delays the next one in full; after that, changes go out at once again", () => {
    const pacer = new PublishPacer(RULES);
    pacer.spend(0, 2_000_000);
    pacer.spend(10, 10_000);
    assert.equal(pacer.delay(20), 10_480);
    assert.equal(pacer.delay(10_500), 0);
    pacer.spend(11_000, 10_000);
    assert.equal(pacer.delay(11_010), 0);
  });

  test("property: all but the last two publications stay within both average limits", () => {
    const write = fc.record({ wait: fc.nat(3_000), bytes: fc.nat(900_000) });
    fc.assert(
      fc.property(fc.array(write, { minLength: 3, maxLength: 100 }), (writes) => {
        const pacer = new PublishPacer(RULES);
        let now = 1_700_000_000_000;
        const begun = now;
        for (const { wait, bytes } of writes) {
          now += wait;
          now += pacer.delay(now);
          assert.equal(pacer.delay(now), 0, "what it says is enough");
          pacer.spend(now, bytes);
        }
        const seconds = (now - begun) / 1_000;
        const paid = writes.slice(0, -2);
        assert.ok(paid.length <= seconds * RULES.publicationsPerSecond);
        assert.ok(paid.reduce((sum, { bytes }) => sum + bytes, 0) <= seconds * RULES.bytesPerSecond + 1);
      }),
    );
  });
});
