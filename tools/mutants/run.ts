import { Baselines } from "./baseline.ts";
import { BaselineCache } from "./baseline-cache.ts";
import { CACHE, hashOfOthers, isUnitTest, type Kept, sourcesOf } from "./files.ts";
import { graphOf } from "./graph.ts";
import { Judge, type Result } from "./judge.ts";
import type { Mutant } from "./mutant.ts";
import { Sandboxes } from "./sandbox.ts";

export interface Run {
  results: Result[];
  /** Tests that failed on the unchanged tree before they were green. */
  flaky: string[];
  /** The error that ended the run before the last mutant, if there was one. */
  error?: unknown;
}

export interface How {
  jobs: number;
  confirm: boolean;
  exhaustive: boolean;
  signal: AbortSignal;
  onBaseline: (test: string, ms: number) => void;
  onResult: (result: Result, done: number) => void;
}

/**
 * Judges all mutants in copies of the tree, `jobs` at a time, and removes the copies. If an error ends the run, the
 * earlier results are returned with it.
 */
export async function judgeAll(
  mutants: Mutant[],
  tree: ReadonlyMap<string, Kept>,
  { jobs, signal, onBaseline, onResult, ...how }: How,
): Promise<Run> {
  const failing = new AbortController();
  const either = AbortSignal.any([signal, failing.signal]);
  using sandboxes = new Sandboxes(tree, either);
  const sources = sourcesOf(tree);
  const graph = graphOf(sources);
  const cache = new BaselineCache(CACHE, graph, sources, hashOfOthers(tree));
  const baselines = new Baselines(sandboxes.make(), onBaseline, cache);
  const judge = new Judge(sources, graph, { baselines, isTest: isUnitTest, ...how });
  const results: Result[] = [];
  const waiting = [...mutants];
  const work = async (): Promise<void> => {
    const place = sandboxes.make();
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const result = await judge.judge(mutant, place);
      results.push(result);
      onResult(result, results.length);
    }
  };
  const workers = Array.from({ length: Math.min(jobs, mutants.length) }, work);
  let outcome: { error?: unknown } = {};
  try {
    await Promise.all(workers);
  } catch (error) {
    outcome = { error };
    failing.abort(error);
    await Promise.allSettled(workers);
  }
  return { results, flaky: await baselines.flaky(), ...outcome };
}
