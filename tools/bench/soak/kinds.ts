import type { Script } from "./end.ts";
import type { Plan } from "./session.ts";

type Random = () => number;

const QUIET: Script = { send: 0, writeSize: 65_536, gapMs: 0, begin: "at-once", fin: "at-once", finDelayMs: 0 };

const KIB = 1024;
const MIB = 1024 * KIB;

/** A whole number from `least` to `most`, evenly distributed on a logarithmic scale. */
function size(random: Random, least: number, most: number): number {
  return Math.floor(Math.exp(Math.log(least) + random() * Math.log((most + 1) / least)));
}

function between(random: Random, least: number, most: number): number {
  return Math.floor(least + random() * (most - least + 1));
}

/** A write size. Some sizes equal a buffer's size, and some differ from it by one. */
function writeSize(random: Random): number {
  const choices = [1460, 4096, 16_384, 65_535, 65_536, 65_537, 262_144, MIB];
  return random() < 0.5 ? (choices[Math.floor(random() * choices.length)] ?? MIB) : size(random, 100, 200_000);
}

const request = (random: Random): Script => ({
  ...QUIET,
  send: size(random, 50, 2000),
  fin: "after-fin",
});

const answer = (random: Random, most = 16 * KIB): Script => ({
  ...QUIET,
  send: size(random, 100, most),
  writeSize: writeSize(random),
  begin: "after-first-bytes",
});

const stream = (random: Random, least: number, most: number): Script => ({
  ...QUIET,
  send: size(random, least, most),
  writeSize: writeSize(random),
});

/**
 * Adds a reset in any state: before the first byte, after some sent or received byte, or after the FIN. The reset
 * follows at once or a little later.
 */
function resetting(random: Random, script: Script, other: Script): Script {
  const ms = random() < 0.5 ? 0 : between(random, 1, 300);
  const states = [
    { sent: 0, received: 0, ms },
    { sent: 0, received: 0, ms: between(random, 0, 5) },
    { sent: Math.ceil(random() * script.send), received: 0, ms },
    { sent: 0, received: Math.ceil(random() * other.send), ms },
    { sent: Math.ceil(random() * script.send), received: Math.ceil((random() * other.send) / 2), ms },
    { sent: script.send, received: 0, ms, fin: true },
  ];
  return { ...script, reset: states[Math.floor(random() * states.length)] ?? { sent: 0, received: 0, ms } };
}

/** A plan that a reset can interrupt. */
function anyPlan(random: Random): { client: Script; upstream: Script } {
  const choice = random();
  if (choice < 0.3) return { client: request(random), upstream: answer(random) };
  if (choice < 0.5) return { client: stream(random, 10 * KIB, 4 * MIB), upstream: answer(random) };
  if (choice < 0.7) return { client: request(random), upstream: answer(random, 4 * MIB) };
  if (choice < 0.9) return { client: stream(random, KIB, 2 * MIB), upstream: stream(random, KIB, 2 * MIB) };
  return { client: { ...QUIET, fin: "after-fin" }, upstream: { ...QUIET, finDelayMs: 500 } };
}

type Kind = readonly [name: string, weight: number, make: (random: Random) => { client: Script; upstream: Script }];

/** What connections do, and how often. Kinds with many bytes or long waits are rare. */
const KINDS: readonly Kind[] = [
  ["request", 30, (random) => ({ client: request(random), upstream: answer(random) })],
  [
    "half-close-request",
    9,
    (random) => ({
      client: { ...request(random), fin: "at-once", finDelayMs: random() < 0.5 ? 0 : between(random, 1, 50) },
      upstream: { ...answer(random, 256 * KIB), begin: "after-fin" },
    }),
  ],
  [
    "chat",
    8,
    (random) => ({
      client: {
        ...QUIET,
        send: between(random, 50, 800),
        writeSize: between(random, 10, 60),
        gapMs: between(random, 1, 60),
      },
      upstream: {
        ...QUIET,
        send: between(random, 50, 800),
        writeSize: between(random, 10, 60),
        gapMs: between(random, 1, 60),
      },
    }),
  ],
  [
    "one-byte-writers",
    5,
    (random) => ({
      client: { ...QUIET, send: between(random, 1, 600), writeSize: 1, gapMs: random() < 0.3 ? 1 : 0 },
      upstream: { ...QUIET, send: between(random, 1, 600), writeSize: 1, gapMs: random() < 0.3 ? 1 : 0 },
    }),
  ],
  ["upload", 6, (random) => ({ client: stream(random, 64 * KIB, 4 * MIB), upstream: answer(random) })],
  ["download", 6, (random) => ({ client: request(random), upstream: answer(random, 4 * MIB) })],
  [
    "duplex",
    4,
    (random) => ({ client: stream(random, 64 * KIB, 2 * MIB), upstream: stream(random, 64 * KIB, 2 * MIB) }),
  ],
  [
    "big",
    0.4,
    (random) => {
      const large = stream(random, 16 * MIB, 64 * MIB);
      return random() < 0.5
        ? { client: large, upstream: answer(random) }
        : { client: request(random), upstream: { ...large, begin: "after-first-bytes" } };
    },
  ],
  [
    "header-only",
    5,
    (random) => ({
      client: { ...QUIET, fin: "after-fin" },
      upstream: { ...stream(random, 1, 4 * KIB), finDelayMs: between(random, 0, 3000) },
    }),
  ],
  [
    "silent",
    3,
    (random) => ({
      client: { ...QUIET, finDelayMs: random() < 0.3 ? 0 : between(random, 1, 4000) },
      upstream: { ...QUIET, fin: "after-fin" },
    }),
  ],
  [
    "stalled-client",
    1.5,
    (random) => ({
      client: {
        ...request(random),
        stall: { at: between(random, 0, 200 * KIB), ms: between(random, 1000, 20_000) },
      },
      upstream: { ...stream(random, MIB, 8 * MIB) },
    }),
  ],
  [
    "stalled-upstream",
    1.5,
    (random) => ({
      client: { ...stream(random, MIB, 8 * MIB) },
      upstream: { ...answer(random), stall: { at: between(random, 0, 200 * KIB), ms: between(random, 1000, 20_000) } },
    }),
  ],
  [
    "stalled-then-reset",
    1,
    (random) => {
      const stalled = { at: between(random, 0, 100 * KIB), ms: 60_000 };
      const reset = { sent: 0, received: 0, ms: between(random, 1000, 15_000) };
      return random() < 0.5
        ? { client: { ...QUIET, stall: stalled, reset }, upstream: stream(random, 4 * MIB, 8 * MIB) }
        : { client: stream(random, 4 * MIB, 8 * MIB), upstream: { ...QUIET, stall: stalled, reset } };
    },
  ],
  [
    "reset-beside-a-stall",
    1,
    (random) => {
      const stalled = { ...QUIET, stall: { at: between(random, 0, 100 * KIB), ms: between(random, 1000, 10_000) } };
      const reset = { sent: 0, received: 0, ms: between(random, 10, 8000) };
      const sender = { ...stream(random, 2 * MIB, 8 * MIB), reset };
      return random() < 0.5 ? { client: sender, upstream: stalled } : { client: stalled, upstream: sender };
    },
  ],
  [
    "client-resets",
    8,
    (random) => {
      const { client, upstream } = anyPlan(random);
      return { client: resetting(random, client, upstream), upstream };
    },
  ],
  [
    "upstream-resets",
    5,
    (random) => {
      const { client, upstream } = anyPlan(random);
      return { client, upstream: resetting(random, upstream, client) };
    },
  ],
  [
    "upload-after-answer",
    2,
    (random) => ({
      client: { ...stream(random, KIB, MIB), begin: "after-fin" },
      upstream: stream(random, 100, 64 * KIB),
    }),
  ],
  [
    "early-answer",
    2,
    (random) => ({
      client: stream(random, MIB, 4 * MIB),
      upstream: {
        ...answer(random),
        stall: { at: 1, ms: 10_000 },
        reset: { sent: 0, received: 1, ms: between(random, 1, 50), fin: true },
      },
    }),
  ],
];

const TOTAL = KINDS.reduce((sum, [, weight]) => sum + weight, 0);

/** The next connection's plan. */
export function nextPlan(random: Random): Plan {
  let left = random() * TOTAL;
  for (const [kind, weight, make] of KINDS) {
    left -= weight;
    if (left < 0) return { kind, ...make(random) };
  }
  return { kind: "request", client: request(random), upstream: answer(random) };
}

/** A small request with its answer. */
export function requestPlan(random: Random, kind = "request"): Plan {
  return { kind, client: request(random), upstream: answer(random) };
}

/** A download that takes about `ms`. */
export function slowPlan(random: Random, ms: number): Plan {
  const pieces = Math.max(1, Math.floor(ms / 20));
  return {
    kind: "drain",
    client: request(random),
    upstream: { ...answer(random), send: pieces * 500, writeSize: 500, gapMs: 20 },
  };
}
