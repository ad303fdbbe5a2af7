import assert from "node:assert/strict";
import { test } from "node:test";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { followOnDemand } from "./map-on-demand.ts";

const MAP = publishedMapOf("r1", new Map([["a.example.com", ["198.51.100.9"]]]));
const PROBLEM: Reason = { code: "index-missing", text: "no index" };
const IDLE_MS = 10 * 60_000;

function start() {
  /** The callbacks of all subscriptions, in the order in which they started. */
  const offers: Array<(offer: PublishedMap | Reason) => void> = [];
  const rig = { now: 0, stopped: 0, maps: [] as Array<string | undefined>, problems: [] as string[] };
  const demand = followOnDemand({
    maps: {
      start(found) {
        offers.push(found);
        return {
          inactiveMs: () => 7,
          stop: async () => {
            rig.stopped += 1;
          },
        };
      },
    },
    setMap: (map) => rig.maps.push(map?.revision),
    onProblem: ({ code }) => rig.problems.push(code),
    now: () => rig.now,
  });
  return { rig, demand, offers };
}

test("the map is not followed until a pod needs it, and then only once", () => {
  const { demand, offers } = start();
  demand.need(false);
  assert.deepEqual([offers.length, demand.following, demand.inactiveMs], [0, false, 0]);
  demand.need(true);
  demand.need(true);
  assert.deepEqual([offers.length, demand.following, demand.inactiveMs], [1, true, 7]);
});

test("an offer that is not a map is reported, and the last map stays", () => {
  const { rig, demand, offers } = start();
  demand.need(true);
  offers[0]?.(PROBLEM);
  assert.deepEqual([demand.hasMap, demand.problem?.code], [false, "index-missing"]);
  offers[0]?.(MAP);
  assert.deepEqual([demand.hasMap, demand.problem], [true, undefined]);
  offers[0]?.(PROBLEM);
  assert.deepEqual([demand.hasMap, demand.problem?.code], [true, "index-missing"]);
  assert.deepEqual([rig.maps, rig.problems], [["r1"], ["index-missing", "index-missing"]]);
});

test("the map is dropped ten minutes after a pod last needed it; later offers of that subscription do nothing", () => {
  const { rig, demand, offers } = start();
  demand.need(true);
  offers[0]?.(MAP);
  rig.now = 1_000;
  demand.need(true);
  rig.now = 1_000 + IDLE_MS - 1;
  demand.need(false);
  assert.deepEqual([demand.following, rig.stopped], [true, 0]);
  rig.now += 1;
  demand.need(false);
  assert.deepEqual([demand.following, demand.hasMap, rig.stopped], [false, false, 1]);
  offers[0]?.(MAP);
  offers[0]?.(PROBLEM);
  assert.deepEqual([rig.maps, rig.problems, demand.hasMap], [["r1", undefined], [], false]);
  demand.need(true);
  offers[1]?.(MAP);
  assert.deepEqual([rig.maps, demand.hasMap], [["r1", undefined, "r1"], true]);
});

test("a stop ends a running subscription, and does nothing without one", async () => {
  const { rig, demand, offers } = start();
  await demand.stop();
  assert.equal(rig.stopped, 0);
  demand.need(true);
  await demand.stop();
  offers[0]?.(MAP);
  assert.deepEqual([rig.stopped, rig.maps], [1, []]);
});
