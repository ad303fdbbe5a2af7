import type { Baselines } from "./baseline.ts";
import { ran } from "./coverage.ts";
import { type Graph, reaching } from "./graph.ts";
import { apply, type Mutant } from "./mutant.ts";
import { runTest, type Surroundings, type TestRun } from "./run-test.ts";
import { withText } from "./sandbox.ts";

export interface Result extends Mutant {
  /** `not covered` means that no test runs the changed text. */
  outcome: "killed" | "timeout" | "survived" | "not covered";
  /** The test file that detected the mutant, and its failed test. */
  by?: string;
  /** Number of test files that ran with the mutant. */
  tests: number;
  ms: number;
  /** Tests that failed once with the mutant and passed in a second run. They did not count. */
  flaky?: string[];
}

export interface Options {
  isTest: (file: string) => boolean;
  baselines: Baselines;
  /**
   * Runs a failed test again, which counts only if it fails again. Tests that are known to be flaky always run again.
   */
  confirm?: boolean;
  /** Also runs tests that, by their coverage, never run the changed text. */
  exhaustive?: boolean;
  /** Timeout of a test with a mutant if it takes `ms` without one; both in milliseconds. */
  timeoutOf?: (ms: number) => number;
}

const MIN_TIMEOUT_MS = 20_000;
const TIMEOUT_FACTOR = 5;

/**
 * Runs tests against mutants. Each test file first runs on the unchanged tree, where it must be green. Its coverage
 * in that run decides which mutants it can detect. A killed process leaves no coverage; see Options.exhaustive.
 */
export class Judge {
  readonly #graph: Graph;
  readonly #sources: ReadonlyMap<string, string>;
  readonly #options: Options;
  readonly #timeoutOf: (ms: number) => number;

  constructor(sources: ReadonlyMap<string, string>, graph: Graph, options: Options) {
    this.#sources = sources;
    this.#graph = graph;
    this.#options = options;
    this.#timeoutOf = options.timeoutOf ?? ((ms) => Math.max(MIN_TIMEOUT_MS, TIMEOUT_FACTOR * ms));
  }

  /** Throws RedBaseline if a test that the mutant needs fails without it. */
  async judge(mutant: Mutant, place: Surroundings): Promise<Result> {
    const started = performance.now();
    const flaky: string[] = [];
    let tests = 0;
    const result = (outcome: Result["outcome"], by?: string): Result => ({
      ...mutant,
      outcome,
      ...(by !== undefined && { by }),
      tests,
      ms: performance.now() - started,
      ...(flaky.length > 0 && { flaky }),
    });
    for (const test of reaching(this.#graph, mutant.file, this.#options.isTest)) {
      const { ms, coverage, isFlaky } = await this.#options.baselines.of(test);
      if (!this.#options.exhaustive && !ran(coverage, mutant)) continue;
      tests += 1;
      const run = await this.#runMutated(test, mutant, place, this.#timeoutOf(ms));
      if (run.outcome === "green") continue;
      const by = `${test}: ${run.detail}`;
      const isCertain = run.outcome === "red" && !this.#options.confirm && !isFlaky;
      const again = isCertain ? run : await this.#runAgain(test, mutant, place, run);
      if (again.outcome !== "green") return result(again.outcome === "red" ? "killed" : "timeout", by);
      flaky.push(by);
    }
    return result(tests === 0 ? "not covered" : "survived");
  }

  async #runMutated(test: string, mutant: Mutant, place: Surroundings, timeoutMs: number): Promise<TestRun> {
    const original = this.#sources.get(mutant.file) ?? "";
    const change: [string, string, string] = [mutant.file, original, apply(original, mutant)];
    return await withText(place, change, () => runTest(test, place, { timeoutMs }));
  }

  /**
   * Runs a test again. After a timeout, it does so only if a run without the mutant shows that the test needs more
   * time.
   */
  async #runAgain(test: string, mutant: Mutant, place: Surroundings, first: TestRun): Promise<TestRun> {
    const timeoutMs = this.#timeoutOf(await this.#options.baselines.msNow(test));
    if (first.outcome === "timeout" && timeoutMs <= first.ms) return first;
    return await this.#runMutated(test, mutant, place, timeoutMs);
  }
}
