import { mutated, mutatedText } from "./mutate.ts";
import { Random } from "./random.ts";

/** A way by which something hostile reaches a component. */
export interface Surface {
  readonly name: string;
  /** Valid inputs: texts, or values that are sent as JSON. */
  readonly seeds: readonly unknown[];
  /** Makes of a mutated input what `feed` gets; not measured. */
  readonly prepare?: (input: unknown) => unknown;
  /** Must return for every input. */
  readonly feed: (input: unknown) => void;
}

/** What the API server keeps of one object, and of a file what is read of it. */
export const MAX_BYTES = 1_500_000;

/**
 * The object has a type that the API server validates, so what it could not be may throw: the informer refuses that
 * one object.
 */
export function tolerant(feed: (raw: never) => void): (raw: unknown) => void {
  return (raw) => {
    try {
      feed(raw as never);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  };
}

export interface SurfaceReport {
  readonly name: string;
  readonly inputs: number;
  /** The most CPU time of the thread that one input took, milliseconds. */
  readonly worstMs: number;
  /** Inputs that broke the surface, each with the number that gives it again (`inputOf`). */
  readonly faults: ReadonlyArray<{ readonly input: number; readonly what: string }>;
}

/**
 * Inputs of one surface until `isEnough`. The rule: nothing throws, and nothing takes more than `maxMs` of the
 * thread's CPU time.
 */
export function fuzz(
  surface: Surface,
  seed: number,
  maxMs: number,
  isEnough: (inputs: number) => boolean,
): SurfaceReport {
  const faults: { input: number; what: string }[] = [];
  let inputs = 0;
  let worstMs = 0;
  for (; !isEnough(inputs) && faults.length < MAX_FAULTS; inputs += 1) {
    const input = inputOf(surface, seed + inputs);
    try {
      const ms = costOf(surface, input, maxMs);
      worstMs = Math.max(worstMs, ms);
      if (ms > maxMs) faults.push({ input: seed + inputs, what: `${ms.toFixed(0)} ms of CPU time` });
    } catch (error) {
      faults.push({
        input: seed + inputs,
        what: error instanceof Error ? (error.stack ?? error.message) : String(error),
      });
    }
  }
  return { name: surface.name, inputs, worstMs, faults };
}

const MAX_FAULTS = 5;
/** An input that seems slow is fed again: the first time may have met a garbage collection or the compiler. */
const TRIES = 4;

function costOf({ feed }: Surface, input: unknown, maxMs: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (let left = TRIES; left > 0 && least > maxMs / 2; left -= 1) {
    const before = process.threadCpuUsage();
    feed(input);
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

/** The input of a number; the same each time. */
export function inputOf({ seeds, prepare = (input) => input }: Surface, number: number): unknown {
  const random = new Random(Math.imul(number + 1, 0x9e3779b1));
  const seed = seeds[random.below(seeds.length)];
  return prepare(typeof seed === "string" ? mutatedText(seed, random) : mutated(seed, random));
}
