import { mutated, mutatedText } from "./mutate.ts";
import { Random } from "./random.ts";

/** A way through which hostile input reaches a component. */
export interface Surface {
  readonly name: string;
  /** Valid inputs: texts, or values that are sent as JSON. */
  readonly seeds: readonly unknown[];
  /** Converts a mutated input to what `feed` gets. Its time is not measured. */
  readonly prepare?: (input: unknown) => unknown;
  /** Must return for every input. */
  readonly feed: (input: unknown) => void;
}

/** Maximum size of an object that the API server stores, and maximum number of bytes that are read from a file. */
export const MAX_BYTES = 1_500_000;

/**
 * Ignores TypeErrors. The API server validates the type of the object, so `feed` may throw on an object that the type
 * excludes. The informer then refuses that one object.
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
  /** Maximum CPU time of the thread for one input, in milliseconds. */
  readonly worstMs: number;
  /** Inputs that broke the surface. Each has the number with which `inputOf` reproduces it. */
  readonly faults: ReadonlyArray<{ readonly input: number; readonly what: string }>;
}

/**
 * Feeds inputs to one surface until `isEnough`. The rule: no input throws, and no input takes more than `maxMs` of
 * the thread's CPU time.
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
/**
 * An input that seems slow is fed again, because a garbage collection or the compiler may have slowed the first try.
 */
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

/** The input with this number. The same number always gives the same input. */
export function inputOf({ seeds, prepare = (input) => input }: Surface, number: number): unknown {
  const random = new Random(Math.imul(number + 1, 0x9e3779b1));
  const seed = seeds[random.below(seeds.length)];
  return prepare(typeof seed === "string" ? mutatedText(seed, random) : mutated(seed, random));
}
