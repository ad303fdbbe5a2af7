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
  encodeRecord(restarts.map(([ago, by]) => ({ at: NOW - ago, begun: 0, by: [by], to: undefined })));

test("a record is written and read back, at most 24 restarts and 20 namespaces of each", () => {
  const by = Array.from({ length: 30 }, (_, index) => `ns-${index}`);
  const { records } = leader();
  const one = records.next([], by, { to: "new", since: 0 });
  const all = Array.from({ length: 30 }, (_, index) => ({ ...one, at: NOW + index }));
  const read = decodeRecord(encodeRecord(all));
  const first = { at: NOW + 6, by: by.slice(0, 20), to: undefined };
  assert.deepEqual([read.length, read[0], read.at(-1)?.at], [24, first, NOW + 29]);
  assert.deepEqual(decodeRecord(undefined), []);
});

test("what pods should get is recorded once every webhook replica has it", () => {
  const { records, pass } = leader();
  pass(24_999);
  assert.equal(records.next([], ["a"], { to: "new", since: 5_000 }).to, undefined);
  pass(1);
  const restart = records.next([], ["a"], { to: "new", since: 5_000 });
  assert.deepEqual([restart.to, decodeRecord(encodeRecord([restart]))[0]?.to], ["new", "new"]);
});

test("a text of somebody else or of a later release counts as removed: the leader remembers what it sent", () => {
  const { of, records } = leader();
  records.remember("u", { at: NOW - MINUTE, begun: 5_000 - MINUTE, by: ["a"], to: undefined });
  const own = [[-MINUTE, -MINUTE, "a"]];
  const long = JSON.stringify({ version: 1, restarts: [{ at: stamp(NOW), by: ["n".repeat(64)] }] });
  for (const text of ["", "{", "[]", '{"version":2,"restarts":[]}', '{"version":1}', long]) {
    assert.deepEqual([decodeRecord(text), of(text)], [[], own], text);
  }
});

test("restarts are those of the last 24 hours, from the annotation and from memory, oldest first", () => {
  const { of, pass, records } = leader();
  const sent = { at: NOW - 2 * MINUTE, begun: 5_000 - 2 * MINUTE, by: ["b"], to: undefined };
  assert.deepEqual([records.remember("u", sent), records.remember("u", sent)], [true, false]);
  const both = [
    [-2 * MINUTE, -2 * MINUTE, "b"],
    [-MINUTE, -MINUTE, "a"],
  ];
  assert.deepEqual(of(recorded([DAY_MS, "old"], [MINUTE, "a"], [2 * MINUTE, "b"])), both);
  assert.deepEqual(of(recorded([MINUTE, "a"])), both, "the owner removed the last one");
  // A forged record takes no memory.
  assert.deepEqual(of(undefined), both.slice(0, 1));
  pass(DAY_MS - 2 * MINUTE);
  assert.deepEqual(of(undefined), []);
  records.remember("another", { ...sent, begun: DAY_MS });
  assert.equal(records.remember("u", sent), true, "forgotten");
});

test("a jump of the wall clock changes no age", () => {
  const { of, clock } = leader();
  for (const jump of [60 * MINUTE, -120 * MINUTE]) {
    clock.wall += jump;
    assert.deepEqual(of(recorded([MINUTE, "a"])), [[-MINUTE, -MINUTE, "a"]]);
  }
});

test("a time in the future has the age 0 until it has come; a time more than a day ahead counts for nothing", () => {
  const { of, pass } = leader(NOW - 60 * MINUTE);
  const text = recorded([MINUTE, "a"]);
  assert.deepEqual(of(text), [[-MINUTE, 0, "a"]]);
  pass(60 * MINUTE);
  assert.deepEqual(of(text), [[-MINUTE, -MINUTE, "a"]]);
  pass(DAY_MS - MINUTE);
  assert.deepEqual(of(text), []);
  assert.deepEqual(leader().of(recorded([-DAY_MS, "a"]), stamp(NOW + DAY_MS)), []);
});

test("a later restart by somebody else starts a new record, once; an earlier or forged stamp changes nothing", () => {
  const { of } = leader();
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
});

test("the next stamp is later than the last one, even if the clock was put back", () => {
  const { records, clock } = leader();
  const workload = { to: "new", since: clock.steady };
  const { at } = records.next([], ["a"], workload);
  assert.equal(at, NOW);
  clock.wall -= 60 * MINUTE;
  const last = { at: NOW, begun: 0, by: ["a"], to: undefined };
  const next = { at: NOW + 1, begun: clock.steady, by: ["b"], to: undefined };
  assert.deepEqual(records.next([last], ["b"], workload), next);
});
