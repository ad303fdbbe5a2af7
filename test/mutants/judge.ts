import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Coverage, ran, readCoverage } from "./coverage.ts";
import { type Graph, reaching } from "./graph.ts";
import { apply, type Mutant } from "./mutant.ts";
import { runTest, type Surroundings, type TestRun } from "./run-test.ts";
import { withText } from "./sandbox.ts";

export interface Result extends Mutant {
  /** Not covered: no test runs the changed text. */
  verdict: "killed" | "timeout" | "survived" | "not covered";
  /** The test file and the test that noticed. */
  by?: string;
  /** Test files that ran with the mutant. */
  tests: number;
  ms: number;
  /** Tests that failed once with the mutant and passed when run again; they did not count. */
  flaky?: string[];
}

export interface Options {
  isTest: (file: string) => boolean;
  /** An unchanged copy, for the runs without a mutant. */
  clean: Surroundings;
  /** A failed test is run again, and counts only if it fails again. A test that is seen to be flaky is always. */
  confirm?: boolean;
  /** Runs tests that by their coverage never run the changed text, too. */
  exhaustive?: boolean;
}

interface Baseline {
  ms: number;
  coverage: Coverage;
  /** It failed before it was green: what it says of a mutant has to be said twice. */
  isFlaky: boolean;
}

const MIN_TIMEOUT_MS = 20_000;
const TIMEOUT_FACTOR = 5;
const BASELINE_TIMEOUT_MS = 5 * 60_000;
const BASELINE_ATTEMPTS = 3;

export class RedBaseline extends Error {
  override name = "RedBaseline";
}

/**
 * Runs tests against mutants. Before a test file judges its first mutant it runs on the unchanged tree: it has to be green, and what
 * it runs of each file says which mutants it can notice. A process that is killed leaves no such record; see Options.exhaustive.
 */
export class Judge {
  readonly #graph: Graph;
  readonly #sources: ReadonlyMap<string, string>;
  readonly #options: Options;
  readonly #baselines = new Map<string, Promise<Baseline>>();

  constructor(sources: ReadonlyMap<string, string>, graph: Graph, options: Options) {
    this.#sources = sources;
    this.#graph = graph;
    this.#options = options;
  }

  /** Throws RedBaseline if a test that the mutant needs fails without it. */
  async judge(mutant: Mutant, place: Surroundings): Promise<Result> {
    const started = performance.now();
    const flaky: string[] = [];
    let tests = 0;
    const result = (verdict: Result["verdict"], by?: string): Result => ({
      ...mutant,
      verdict,
      ...(by !== undefined && { by }),
      tests,
      ms: performance.now() - started,
      ...(flaky.length > 0 && { flaky }),
    });
    for (const test of reaching(this.#graph, mutant.file, this.#options.isTest)) {
      const { ms, coverage, isFlaky } = await this.#baseline(test);
      if (!this.#options.exhaustive && !ran(coverage, mutant)) continue;
      tests += 1;
      const timeoutMs = Math.max(MIN_TIMEOUT_MS, TIMEOUT_FACTOR * ms);
      const run = await this.#runMutated(test, mutant, place, timeoutMs);
      if (run.verdict === "green") continue;
      const by = `${test}: ${run.detail}`;
      const again = this.#options.confirm || isFlaky ? await this.#runMutated(test, mutant, place, timeoutMs) : run;
      if (again.verdict !== "green") return result(run.verdict === "red" ? "killed" : "timeout", by);
      flaky.push(by);
    }
    return result(tests === 0 ? "not covered" : "survived");
  }

  async #runMutated(test: string, mutant: Mutant, place: Surroundings, timeoutMs: number): Promise<TestRun> {
    const original = this.#sources.get(mutant.file) ?? "";
    const change: [string, string, string] = [mutant.file, original, apply(original, mutant)];
    return await withText(place, change, () => runTest(test, place, { timeoutMs }));
  }

  #baseline(test: string): Promise<Baseline> {
    let baseline = this.#baselines.get(test);
    if (baseline === undefined) {
      baseline = this.#measure(test);
      this.#baselines.set(test, baseline);
    }
    return baseline;
  }

  async #measure(test: string): Promise<Baseline> {
    const { clean } = this.#options;
    const number = this.#baselines.size;
    let red: TestRun | undefined;
    for (let attempt = 0; attempt < BASELINE_ATTEMPTS; attempt += 1) {
      const folder = join(clean.temp, `coverage-${number}-${attempt}`);
      const run = await runTest(test, clean, { timeoutMs: BASELINE_TIMEOUT_MS, coverage: folder });
      if (run.verdict === "green") {
        return { ms: run.ms, coverage: takeCoverage(folder, clean.tree), isFlaky: red !== undefined };
      }
      red = run;
    }
    throw new RedBaseline(`${test} is ${red?.verdict} without any mutant: ${red?.detail}`);
  }

  /** Tests that failed on the unchanged tree before they were green. */
  async flakyTests(): Promise<string[]> {
    const measured = await Promise.allSettled(this.#baselines.values());
    return [...this.#baselines.keys()].filter((_, index) => {
      const baseline = measured[index];
      return baseline?.status === "fulfilled" && baseline.value.isFlaky;
    });
  }
}

function takeCoverage(folder: string, tree: string): Coverage {
  const coverage = readCoverage(folder, tree);
  rmSync(folder, { recursive: true });
  return coverage;
}
