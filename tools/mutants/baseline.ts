import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Baseline, BaselineCache } from "./baseline-cache.ts";
import { readCoverage } from "./coverage.ts";
import { runTest, type Surroundings, type TestRun } from "./run-test.ts";

export class RedBaseline extends Error {
  override name = "RedBaseline";
}

const TIMEOUT_MS = 5 * 60_000;
const ATTEMPTS = 3;

/** Runs each test file once on the unchanged tree, on its first request. */
export class Baselines {
  readonly #clean: Surroundings;
  readonly #cache: BaselineCache | undefined;
  readonly #onMeasured: (test: string, ms: number) => void;
  readonly #asked = new Map<string, Promise<Baseline>>();
  #runs = 0;

  constructor(clean: Surroundings, onMeasured: (test: string, ms: number) => void = () => {}, cache?: BaselineCache) {
    this.#clean = clean;
    this.#onMeasured = onMeasured;
    this.#cache = cache;
  }

  /** Returns the test's baseline. Throws RedBaseline if no attempt is green. */
  async of(test: string): Promise<Baseline> {
    let asked = this.#asked.get(test);
    if (asked === undefined) {
      asked = this.#cachedOrMeasured(test);
      this.#asked.set(test, asked);
    }
    return await asked;
  }

  /** The test's current duration, in milliseconds: other processes may have slowed it down since the first run. */
  async msNow(test: string): Promise<number> {
    const { ms } = await this.#measure(test);
    return ms;
  }

  /** Tests that failed before they were green. */
  async flaky(): Promise<string[]> {
    const all = await Promise.allSettled([...this.#asked].map(async ([test, asked]) => ({ test, ...(await asked) })));
    return all.flatMap((one) => (one.status === "fulfilled" && one.value.isFlaky ? [one.value.test] : []));
  }

  async #cachedOrMeasured(test: string): Promise<Baseline> {
    const cached = this.#cache?.get(test);
    if (cached !== undefined) return cached;
    const measured = await this.#measure(test);
    this.#onMeasured(test, measured.ms);
    this.#cache?.set(test, measured);
    return measured;
  }

  async #measure(test: string): Promise<Baseline> {
    const { tree, temp } = this.#clean;
    let red: TestRun | undefined;
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      this.#runs += 1;
      const folder = join(temp, `coverage-${this.#runs}`);
      const run = await runTest(test, this.#clean, { timeoutMs: TIMEOUT_MS, coverage: folder });
      if (run.outcome === "green") {
        const coverage = readCoverage(folder, tree);
        rmSync(folder, { recursive: true });
        return { ms: run.ms, coverage, isFlaky: red !== undefined };
      }
      red = run;
    }
    throw new RedBaseline(`${test} is ${red?.outcome} without any mutant: ${red?.detail}`);
  }
}
