import assert from "node:assert/strict";
import { test } from "node:test";
import { DAY_MS, decodeRecord, encodeRecord, restartRecords, stamp } from "./restart-record.ts";

const NOW = 1_700_000_000_000;
const MINUTE = 60_000;

/** Records of a leader whose clocks a test moves. */
function leader(wall = NOW) {
  const clock = { steady: 5_000, wall };
  const records = restartRecords({ now: () => clock.steady, wallClock: () => clock.wall });
  const pass = (ms: number) => {
    clock.steady += ms;
    clock.wall += ms;
  };
  const of = (restarts: string | undefined, restartedAt?: string) => {
    const found = records.of({ uid: "u", restarts, restartedAt });
    return found.map(({ at, begun, by }) => [at - NOW, begun - clock.steady, by.join()]);
  };
  return { clock, records, pass, of };
}

const recorded = (...restarts: readonly (readonly [ago: number, by: string])[]) =>
  encodeRecord(restarts.map(([ago, by]) => ({ at: NOW - ago, begun: 0, by: [by] })));

test("a record is written and read back, at most 24 restarts and 20 namespaces of each", () => {
  const by = Array.from({ length: 30 }, (_, index) => `ns-${index}`);
  const all = Array.from({ length: 30 }, (_, index) => ({ at: NOW + index, begun: 0, by }));
  const read = decodeRecord(encodeRecord(all));
  assert.deepEqual([read.length, read[0], read.at(-1)?.at], [24, { at: NOW + 6, by: by.slice(0, 20) }, NOW + 29]);
  assert.deepEqual(decodeRecord(undefined), []);
});

test("a text of somebody else or of a later release counts as removed: the leader still remembers", () => {
  const { of } = leader();
  const own = of(recorded([MINUTE, "a"]));
  const long = JSON.stringify({ version: 1, restarts: [{ at: stamp(NOW), by: ["n".repeat(64)] }] });
  for (const text of ["", "{", "[]", '{"version":2,"restarts":[]}', '{"version":1}', long]) {
    assert.deepEqual([decodeRecord(text), of(text)], [[], own], text);
  }
});

test("restarts are those of the last 24 hours, from the annotation and from memory, oldest first", () => {
  const { of, pass } = leader();
  const text = recorded([DAY_MS, "old"], [MINUTE, "a"], [2 * MINUTE, "b"]);
  const both = [
    [-2 * MINUTE, -2 * MINUTE, "b"],
    [-MINUTE, -MINUTE, "a"],
  ];
  assert.deepEqual(of(text), both);
  assert.deepEqual(of(undefined), both, "the owner removed the annotation");
  pass(DAY_MS - MINUTE);
  assert.deepEqual(of(undefined), []);
});

test("the first look at a time fixes its age, whatever the wall clock does; a time in the future has the age 0", () => {
  const { of, clock, pass } = leader();
  of(recorded([MINUTE, "a"]));
  clock.wall += 60 * MINUTE;
  assert.deepEqual(of(undefined), [[-MINUTE, -MINUTE, "a"]]);
  clock.wall -= 120 * MINUTE;
  assert.deepEqual(of(undefined), [[-MINUTE, -MINUTE, "a"]]);
  assert.deepEqual(leader(NOW - 60 * MINUTE).of(recorded([MINUTE, "a"])), [[-MINUTE, 0, "a"]]);
  pass(1);
});

test("a later restart by somebody else starts a new record, once; an earlier or forged stamp changes nothing", () => {
  const { of, pass } = leader();
  const text = recorded([10 * MINUTE, "a"]);
  const own = [[-10 * MINUTE, -10 * MINUTE, "a"]];
  for (const restartedAt of [
    undefined,
    "nonsense",
    stamp(NOW - 20 * MINUTE),
    stamp(NOW - 10 * MINUTE),
    "+275760-09-13T00:00:00.000Z",
  ])
    assert.deepEqual(of(text, restartedAt), own);
  const anew = [[-MINUTE, -MINUTE, ""]];
  for (let look = 0; look < 2; look += 1) assert.deepEqual(of(text, stamp(NOW - MINUTE)), anew);
  pass(MINUTE);
  assert.deepEqual(of(undefined), [[-MINUTE, -2 * MINUTE, ""]]);
});

test("the next stamp is later than the last one, even if the clock was put back", () => {
  const { records, clock } = leader();
  const { at } = records.next([], ["a"]);
  assert.equal(at, NOW);
  clock.wall -= 60 * MINUTE;
  assert.deepEqual(records.next([{ at: NOW, begun: 0, by: ["a"] }], ["b"]), {
    at: NOW + 1,
    begun: clock.steady,
    by: ["b"],
  });
});
