import { type Graph, reaching } from "./graph.ts";
import { apply, type Mutant } from "./mutant.ts";
import { runTest, type Surroundings, type TestRun } from "./run-test.ts";
import { withText } from "./sandbox.ts";

export interface Result extends Mutant {
  verdict: "killed" | "timeout" | "survived" | "not covered";
  /** The test file and the test that noticed. */
  by?: string;
  /** Test files that ran. */
  tests: number;
  ms: number;
}

const MIN_TIMEOUT_MS = 20_000;
const TIMEOUT_FACTOR = 5;

export class RedBaseline extends Error {
  override name = "RedBaseline";
}

/** Runs tests against mutants. Each test file has to be green on the unchanged tree before it judges its first mutant. */
export class Judge {
  readonly #graph: Graph;
  readonly #sources: ReadonlyMap<string, string>;
  readonly #isTest: (file: string) => boolean;
  readonly #clean: Surroundings;
  readonly #baselines = new Map<string, Promise<TestRun>>();

  constructor(
    sources: ReadonlyMap<string, string>,
    graph: Graph,
    { clean, isTest }: { clean: Surroundings; isTest: (file: string) => boolean },
  ) {
    this.#sources = sources;
    this.#graph = graph;
    this.#clean = clean;
    this.#isTest = isTest;
  }

  /** Throws RedBaseline if a test that the mutant needs fails without it. */
  async judge(mutant: Mutant, place: Surroundings): Promise<Result> {
    const started = performance.now();
    const original = this.#sources.get(mutant.file) ?? "";
    const tests = reaching(this.#graph, mutant.file, this.#isTest);
    const result = (verdict: Result["verdict"], count: number, by?: string): Result => ({
      ...mutant,
      verdict,
      ...(by !== undefined && { by }),
      tests: count,
      ms: performance.now() - started,
    });
    for (const [index, test] of tests.entries()) {
      const { ms } = await this.#baseline(test);
      const timeout = Math.max(MIN_TIMEOUT_MS, TIMEOUT_FACTOR * ms);
      const run = await withText(place, [mutant.file, original, apply(original, mutant)], () =>
        runTest(test, timeout, place),
      );
      if (run.verdict === "timeout") return result("timeout", index + 1, test);
      if (run.verdict === "red") return result("killed", index + 1, `${test}: ${run.detail}`);
    }
    return result(tests.length === 0 ? "not covered" : "survived", tests.length);
  }

  #baseline(test: string): Promise<TestRun> {
    let baseline = this.#baselines.get(test);
    if (baseline === undefined) {
      baseline = this.#measure(test);
      this.#baselines.set(test, baseline);
    }
    return baseline;
  }

  async #measure(test: string): Promise<TestRun> {
    const run = await runTest(test, BASELINE_TIMEOUT_MS, this.#clean);
    if (run.verdict === "green") return run;
    throw new RedBaseline(`${test} is ${run.verdict} without any mutant: ${run.detail}`);
  }
}

const BASELINE_TIMEOUT_MS = 5 * 60_000;
