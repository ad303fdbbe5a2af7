import assert from "node:assert/strict";
import { test } from "node:test";
import { MapReaders, mapOf, snapshotOf, TestLeader, type TestLease } from "#test/fakes/map-leaders.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { turns } from "#test/fakes/stopped-time.ts";
import { fc } from "#test/property.ts";
import type { Snapshot } from "./map-writer.ts";

// Tests every order in which a publication, the end of its leader, the next leader and a reader can meet.

const NAMESPACE = "sys";
const line = (name: string, address = "198.51.100.9") => `${address} ${name}.example.com\n`;
/** One shard, then a change of it, twice as many shards, another change, one shard again, and shards without a line. */
const SNAPSHOTS = [
  snapshotOf(line("a")),
  snapshotOf(line("a") + line("b")),
  snapshotOf(line("a"), line("b"), line("c"), "", ""),
  snapshotOf(line("a"), line("b", "198.51.100.1"), "", line("c") + line("d"), ""),
  snapshotOf(line("c")),
] as const;
const [FIRST, CHANGED, MORE, MOVED, FEWER] = SNAPSHOTS;
const WHOLE: ReadonlySet<string> = new Set(SNAPSHOTS.map(mapOf));

/** Waits until every answer and every watch event has arrived. */
async function settle(): Promise<void> {
  await turns(12);
}

/** A cluster in which one leader has published a map. `start` adds another controller. */
async function cluster(first: Snapshot = FIRST) {
  const kube = new MemoryKube();
  const leaders: TestLeader[] = [];
  const lease: TestLease = { holder: undefined };
  const start = async () => {
    const leader = new TestLeader(kube.client, NAMESPACE, lease);
    leaders.push(leader);
    await leader.synced();
    return leader;
  };
  const readers = new MapReaders();
  readers.start(kube.client, NAMESPACE);
  const leader = await start();
  // Publish something first, so that there is a spare.
  await leader.lead(snapshotOf(line("z")));
  await leader.publish(first);
  await settle();
  readers.states.length = 0;
  const close = async () => {
    readers.stop();
    await Promise.all(leaders.map((each) => each.close()));
  };
  return { kube, start, readers, leader, close };
}

/** Checks that every reader had a complete map after each write. */
function assertWhole({ states }: MapReaders, what: string): void {
  for (const [at, state] of states.entries()) {
    for (const map of state) assert.ok(WHOLE.has(map), `${what}, after write ${at + 1}: ${state.join(" | ")}`);
  }
}

/** More writes than any publication in this test has. */
const MANY = 40;

for (const [what, from, to, next] of [
  ["a change", FIRST, CHANGED, MORE],
  ["more shards", CHANGED, MORE, MOVED],
  ["a change of some shards", MORE, MOVED, FEWER],
  ["fewer shards", MOVED, FEWER, FEWER],
] as const) {
  test(`${what}: if a leader dies at any write, and the next one too, the map is still complete`, async () => {
    let ended = false;
    for (let first = 0; !ended; first += 1) {
      let ends = false;
      for (let second = 0; !ends; second += 1) {
        const { start, readers, leader, close } = await cluster(from);
        const others = [await start(), await start()] as const;
        const run = async (who: TestLeader, work: () => Promise<void>, writes: number) => {
          who.stopAfter(writes);
          const done = work();
          await who.stopped(done);
          await settle();
          return who.held.length === 0;
        };
        ended = await run(leader, () => leader.publish(next, to), first);
        ends = await run(others[0], () => others[0].lead(next), second);
        await others[1].lead(next);
        await settle();
        assertWhole(readers, `${what}, ended after ${first} and ${second}`);
        assert.deepEqual(new Set(readers.states.at(-1)), new Set([mapOf(next)]));
        await close();
        assert.ok(first < MANY && second < MANY);
      }
    }
  });

  test(`${what}: a leader that pauses before any write and resumes at any later one changes nothing`, async () => {
    let ended = false;
    let refused = 0;
    for (let stop = 0; !ended; stop += 1) {
      let over = false;
      for (let resume = 0; !over; resume += 1) {
        const { kube, start, readers, leader, close } = await cluster(from);
        const other = await start();
        leader.stopAfter(stop);
        const work = leader.publish(next, to);
        await leader.stopped(work);
        await settle();
        ended = leader.held.length === 0;
        let writes = 0;
        kube.onWrite = async () => {
          if (writes++ !== resume) return;
          leader.resume();
          await work;
        };
        await other.lead(next);
        over = writes <= resume;
        kube.onWrite = () => {};
        const existing = leader.held.filter((path) => kube.at(path) !== undefined);
        leader.resume();
        await work;
        await settle();
        const where = `${what}, stopped after ${stop}, went on at ${resume}`;
        assertWhole(readers, where);
        // Only a missing shard can be created late. No index names it, and the next publication removes it.
        if (over) {
          const names = existing.map((path) => path.split("/").at(-1));
          const taken = leader.late.filter((each) => each.endsWith("taken"));
          assert.deepEqual(
            taken.filter((each) => names.includes(each.split(":")[0]) || !/-\d+:/.test(each)),
            [],
            where,
          );
          refused += leader.late.length - taken.length;
        }
        await other.publish(next);
        await settle();
        assert.deepEqual(new Set(readers.states.at(-1)), new Set([mapOf(next)]), where);
        await close();
        assert.ok(stop < MANY && resume < MANY);
      }
    }
    assert.ok(refused >= 3, `${refused}: the first write of the index, of the state, and of a spare`);
  });
}

test("property: if leaders pause and resume anywhere, readers have whole maps; the last leader's counts", async () => {
  const step = fc.record({
    snapshots: fc.array(fc.constantFrom(...SNAPSHOTS), { minLength: 1, maxLength: 3 }),
    stop: fc.nat(12),
    /** The stopped leader resumes before this one of the later writes. */
    resume: fc.nat(30),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 5 }), async (steps) => {
      const { kube, start, readers, close } = await cluster();
      const waiting: Array<{ leader: TestLeader; at: number; work: Promise<void> }> = [];
      let writes = 0;
      kube.onWrite = async () => {
        writes += 1;
        for (const { leader, work } of waiting.filter(({ at }) => at === writes)) {
          leader.resume();
          await work;
        }
      };
      for (const { snapshots, stop, resume } of steps) {
        const leader = await start();
        leader.stopAfter(stop);
        const work = leader.lead(...snapshots);
        await leader.stopped(work);
        await settle();
        waiting.push({ leader, at: writes + 1 + resume, work });
      }
      const last = await start();
      await last.lead(MORE);
      kube.onWrite = () => {};
      for (const { leader } of waiting) leader.resume();
      await Promise.all(waiting.map(({ work }) => work));
      await settle();
      await last.publish(MORE);
      await settle();
      assertWhole(readers, JSON.stringify(steps));
      assert.deepEqual(new Set(readers.states.at(-1)), new Set([mapOf(MORE)]));
      await close();
    }),
    { numRuns: 20 },
  );
});
