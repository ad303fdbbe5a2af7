import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { randomFrom } from "../../bench/pattern.ts";
import { type Chance, FAULTS, type Fault, type Faults } from "../../test/fakes/kernel.ts";
import { type Ending, type Step, World } from "../../test/fakes/relay-world.ts";

/*
 * The loop, its connections and pumps against a kernel in memory (test/fakes/kernel.ts): random clients and upstreams that send,
 * read, stop reading, end and reset whenever they like, on few descriptors that are used again at once. The kernel throws when a
 * descriptor is used that is not open, closed twice, or registered out of order. What must come of it: test/fakes/relay-world.ts.
 *
 * FUZZ_SECONDS=600 has each random test go on for so long. A failure prints its seed.
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

/** The rest of what a world depends on. */
const settings = fc.record({
  seed: fc.nat(),
  near: fc.nat(2),
  idleTimeoutMs: fc.constantFrom(0, 0, 1000),
  ending: fc.constantFrom<Ending>("orderly", "orderly", "orderly", "drain", "death", "silence"),
});

/** Of so many calls one, on average. */
const RARITY: Readonly<Record<Fault, number>> = { interrupt: 16, later: 8, accept: 40, watch: 60, option: 8, name: 8 };

function chanceOf(seed: number): Chance {
  const random = randomFrom(seed);
  return (below) => Math.floor(random() * below);
}

test("no byte is lost, doubled or reordered, and every descriptor is closed once, whatever the far ends do", () => {
  fc.assert(
    fc.property(steps, settings, (script, { seed, ending, ...rest }) => {
      const chance = chanceOf(seed);
      const world = new World({ ...rest, chance, faults: (fault) => chance(RARITY[fault]) === 0 });
      for (const step of script) world.step(step);
      world.finish(ending);
    }),
    effort(1500),
  );
});

/** Streams that are spliced, stall with bytes in their pipe and are cut there, so that pipes and descriptors pass to others. */
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

test("what a pipe or a descriptor held for one connection never comes out at another", () => {
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
    effort(200),
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

/** A client of each protocol, whose connections are relayed to their end. */
const SCRIPTS: Readonly<Record<string, readonly Step[]>> = {
  "a question and an answer": [
    ...[0, 1, 2].flatMap((which): Step[] => [["openAndSend", which, 700], ...CONNECT]),
    ...[0, 1, 2].flatMap((which): Step[] => [["upstreamSend", which, 5000], ...TURNS]),
    ["read", 0, 100_000],
    ...[0, 1, 2].flatMap((which): Step[] => [["upstreamEnd", which, 0], ...TURNS, ["clientEnd", which, 0]]),
  ],
  "all is said when they are taken in": [0, 1, 2].flatMap((which): Step[] => [
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
  "the upstream speaks first": [
    ...[0, 1, 2].flatMap((which): Step[] => [["open", which, 20_000], ...CONNECT, ["upstreamSend", which, 30_000]]),
    ...TURNS,
    ["wait", 0, 60],
    ["read", 0, 50_000],
    ...TURNS,
    ...[0, 1, 2].map((which): Step => ["clientSend", which, 10]),
  ],
};

/** Of these a connection must not notice anything. */
const HARMLESS = new Set<Fault>(["interrupt", "later", "option", "name"]);

for (const [title, script] of Object.entries(SCRIPTS)) {
  test(`${title}: any one call may fail, whichever it is`, () => {
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
            if (HARMLESS.has(fault))
              assert.equal(harm(world), 0, "nobody is turned away or cut, no address has failed");
          } catch (error) {
            throw new Error(`near ${near}, ${fault} at call ${which}`, { cause: error });
          }
        }
      }
    }
  });
}

/** Clients that were turned away or cut, and addresses that failed. */
function harm(world: World): number {
  const { refused, cut, dialErrors } = world.stats();
  return [refused, cut, dialErrors].flatMap((counts) => Object.values(counts)).reduce((sum, count) => sum + count);
}
