import assert from "node:assert/strict";
import { test } from "node:test";
import { type Chance, FAULTS, type Fault, type Faults } from "#test/fakes/kernel.ts";
import { type Ending, type Step, World } from "#test/fakes/relay-world.ts";
import { Random } from "#test/fuzz/random.ts";
import { fc } from "#test/property.ts";

/*
 * The event loop, its connections and pumps on a kernel in memory (test/fakes/kernel.ts): random clients and upstreams
 * send, read, stop reading, end and reset at any time, on few descriptors that are reused at once. The kernel throws if
 * a descriptor is used while it is not open, closed twice, or registered out of order. test/fakes/relay-world.ts checks
 * the results.
 *
 * FUZZ_SECONDS=600 runs each random test for that long. A failure prints its seed.
 */
const SECONDS = Number(process.env.FUZZ_SECONDS ?? 0);

function effort(numRuns: number): fc.Parameters<unknown> {
  if (SECONDS > 0) return { numRuns: Number.MAX_SAFE_INTEGER, interruptAfterTimeLimit: SECONDS * 1000 };
  return { numRuns, interruptAfterTimeLimit: 30_000 };
}

const OFTEN = [
  ["open", "openAndSend", "openAndSend", "openSendAndEnd", "turn", "turn", "turn", "turn", "wait"],
  ["connect", "connect", "clientSend", "clientSend", "upstreamSend", "upstreamSend", "read", "read"],
].flat();
const RARE = [
  ["refuse", "clientEnd", "clientReset", "upstreamEnd", "upstreamReset", "late", "sweep", "nudge"],
  ["starve", "feed", "cut", "drop", "adopt", "adopt", "swap", "move", "clientUrge", "upstreamUrge"],
].flat();

const amounts = fc.oneof(fc.nat(100), fc.nat(5000), fc.nat(200_000), fc.integer({ min: 200_000, max: 1_000_000 }));
const steps = fc.array(fc.tuple(fc.constantFrom(...OFTEN, ...OFTEN, ...RARE), fc.nat(11), amounts), {
  minLength: 1,
  maxLength: 150,
  size: "max",
});

/** The other inputs of a world. */
const settings = fc.record({
  seed: fc.nat(),
  near: fc.nat(2),
  idleTimeoutMs: fc.constantFrom(0, 0, 1000),
  halfClosedMs: fc.constantFrom(0, 0, 400),
  ending: fc.constantFrom<Ending>("orderly", "orderly", "orderly", "drain", "death", "silence"),
});

/** One in this many calls fails, on average. */
const RARITY: Readonly<Record<Fault, number>> = { interrupt: 16, later: 8, accept: 40, watch: 60, option: 8, name: 8 };

function chanceOf(seed: number): Chance {
  const random = new Random(seed);
  return (below) => random.below(below);
}

test("no byte is lost, duplicated or reordered, and every descriptor is closed once, whatever the peers do", () => {
  fc.assert(
    fc.property(steps, settings, (script, { seed, ending, ...rest }) => {
      const chance = chanceOf(seed);
      const world = new World({ ...rest, chance, faults: (fault) => chance(RARITY[fault]) === 0 });
      for (const step of script) world.step(step);
      world.finish(ending);
    }),
    effort(500),
  );
});

/**
 * Streams that are spliced, stall with bytes in their pipe and are cut, so that other connections reuse pipes and
 * descriptors.
 */
const heavySteps = fc.array(
  fc.tuple(
    fc.constantFrom(
      "openAndSend",
      "clientSend",
      "upstreamSend",
      "upstreamSend",
      "clientReset",
      "upstreamReset",
      "turn",
      "turn",
      "read",
    ),
    fc.nat(11),
    fc.integer({ min: 30_000, max: 400_000 }),
  ),
  { minLength: 30, maxLength: 120, size: "max" },
);

test("bytes that a pipe or a descriptor held for one connection never reach another", () => {
  fc.assert(
    fc.property(heavySteps, fc.nat(), fc.nat(2), (script, seed, near) => {
      const chance = chanceOf(seed);
      const world = new World({ chance, faults: (fault) => chance(RARITY[fault]) === 0, near, isCalm: true });
      for (const step of script) {
        world.step(step);
        // Every client is connected from the start.
        if (step[0] === "openAndSend") play(world, CONNECT);
      }
      world.finish("orderly");
    }),
    effort(100),
  );
});

const TURNS: readonly Step[] = [
  ["turn", 0, 0],
  ["turn", 0, 0],
  ["turn", 0, 0],
];
const CONNECT: readonly Step[] = [...TURNS, ["connect", 0, 0], ...TURNS, ["read", 0, 10]];

function play(world: World, script: readonly Step[]): void {
  for (const step of script) world.step(step);
}

/** Scripts with one client per protocol, whose connections end normally. */
const SCRIPTS: Readonly<Record<string, readonly Step[]>> = {
  "a request and an answer": [
    ...[0, 1, 2].flatMap((which): Step[] => [["openAndSend", which, 700], ...CONNECT]),
    ...[0, 1, 2].flatMap((which): Step[] => [["upstreamSend", which, 5000], ...TURNS]),
    ["read", 0, 100_000],
    ...[0, 1, 2].flatMap((which): Step[] => [["upstreamEnd", which, 0], ...TURNS, ["clientEnd", which, 0]]),
  ],
  "the client has sent everything before accept": [0, 1, 2].flatMap((which): Step[] => [
    ["openSendAndEnd", which, 20_000],
    ...CONNECT,
    ["upstreamSend", 0, 900],
    ["upstreamEnd", 0, 0],
    ...TURNS,
    ["read", 0, 100_000],
    ...TURNS,
  ]),
  "large streams both ways to slow readers": [
    ...[0, 1, 2].flatMap((which): Step[] => [["openAndSend", which, 40_000], ...CONNECT]),
    ...[0, 1, 2].flatMap((which): Step[] => [
      ["upstreamSend", which, 60_000],
      ...TURNS,
      ["read", 0, 5000],
      ["clientSend", which, 30_000],
      ...TURNS,
      ["read", 0, 20_000],
      ...TURNS,
    ]),
  ],
  "the upstream sends first": [
    ...[0, 1, 2].flatMap((which): Step[] => [["open", which, 20_000], ...CONNECT, ["upstreamSend", which, 30_000]]),
    ...TURNS,
    ["wait", 0, 60],
    ["read", 0, 50_000],
    ...TURNS,
    ...[0, 1, 2].map((which): Step => ["clientSend", which, 10]),
  ],
};

/** Faults that must not affect a connection. */
const HARMLESS = new Set<Fault>(["interrupt", "later", "option", "name"]);

for (const [title, script] of Object.entries(SCRIPTS)) {
  test(`${title}: any single call may fail`, () => {
    for (const near of [0, 2]) {
      for (const fault of FAULTS) {
        for (let which = 0, calls = 1; which < calls; which += 1) {
          calls = 0;
          const faults: Faults = (candidate) => {
            if (candidate !== fault) return false;
            calls += 1;
            return calls === which + 1;
          };
          const world = new World({ chance: chanceOf(which), faults, near, isCalm: true });
          try {
            play(world, script);
            world.finish("orderly");
            if (HARMLESS.has(fault)) assert.equal(harm(world), 0, "no client is refused or cut, no address has failed");
          } catch (error) {
            throw new Error(`near ${near}, ${fault} at call ${which}`, { cause: error });
          }
        }
      }
    }
  });
}

/** Clients that were refused or cut, and addresses that failed. */
function harm(world: World): number {
  const { refused, cut, dialErrors } = world.stats();
  return [refused, cut, dialErrors].flatMap((counts) => Object.values(counts)).reduce((sum, count) => sum + count);
}
