import assert from "node:assert/strict";
import { test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { MapAnnouncements } from "./map-announcements.ts";

function rig() {
  const log = new LineLog();
  const held: number[][] = [];
  const announcements = new MapAnnouncements(log, (...parts) => held.push(parts));
  return { announcements, held, lines: () => log.lines.splice(0) };
}

const HOLD = { since: 1, until: 5, names: 7, of: 12 };

test("a hold is reported with its numbers when it begins; a different or a repeated hold is reported again", () => {
  const { announcements, held, lines } = rig();
  const line = (hold: typeof HOLD) => ({
    level: "warn",
    fields: { code: "removal-held", ...hold },
    message: "more than half of the names would be removed at once; the removal is held back",
  });
  announcements.hold(undefined);
  assert.deepEqual(lines(), []);
  announcements.hold(HOLD);
  announcements.hold({ ...HOLD, names: 8 });
  assert.deepEqual([lines(), held.splice(0)], [[line(HOLD)], [[7, 12, 5]]]);
  const other = { ...HOLD, since: 2, until: 6 };
  announcements.hold(other);
  assert.deepEqual([lines(), held.splice(0)], [[line(other)], [[7, 12, 6]]]);
  announcements.hold(undefined);
  announcements.hold(undefined);
  assert.deepEqual([lines(), held], [[], []]);
  announcements.hold(other);
  assert.deepEqual([lines(), held], [[line(other)], [[7, 12, 6]]]);
});

test("a hold is logged even without an onHeld callback", () => {
  const log = new LineLog();
  new MapAnnouncements(log, undefined).hold(HOLD);
  assert.equal(log.lines.length, 1);
});

test("names that do not fit are reported when their number changes, unless it drops to zero", () => {
  const { announcements, lines } = rig();
  const line = (names: number) => ({
    level: "error",
    fields: { code: "map-full", names },
    message: "names do not fit into the map",
  });
  const reported = [0, 1, 1, 3, 0, 0, 1].map((names) => {
    announcements.overflow(names);
    return lines();
  });
  assert.deepEqual(reported, [[], [line(1)], [], [line(3)], [], [], [line(1)]]);
});
