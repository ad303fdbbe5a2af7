import { join } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { setTimeout as delay } from "node:timers/promises";
import { RUN_VARIABLE, startedProcesses } from "./processes.ts";

const ROOT = join(import.meta.dirname, "..");

export interface Outcome {
  /** Each with the first line of its error: the whole stands where the test ran, perhaps far above. */
  failed: string[];
  skipped: string[];
}

export interface RunOptions {
  /** How many files at a time, each in a process of its own. */
  concurrency: number;
  signal?: AbortSignal;
  /** After how long without any news of a test the run ends what it waits for. */
  silenceMs?: number;
}

/** Where Node keeps what it makes of source files. `npm ci` deletes it. */
const COMPILE_CACHE = join(ROOT, "node_modules", ".cache", "node");
/** A test that hangs fails, and the rest still runs. */
const TEST_TIMEOUT_MS = 10 * 60_000;
/**
 * No test is without news for longer. A file whose tests have ended does not end while anything in it is open (a
 * server that a failed test did not close), nor while a process that it has started holds its output: the runner
 * itself waits for both without a limit.
 */
const SILENCE_MS = TEST_TIMEOUT_MS + 60_000;
/** How long the runner has to end once everything that it could wait for is killed. */
const GIVE_UP_MS = 20_000;

const NEWS = ["test:enqueue", "test:dequeue", "test:complete", "test:pass", "test:fail", "test:stderr", "test:stdout"];

/**
 * Runs the files as `node --test` does and prints what its spec reporter prints. Always ends: what is left of a
 * file that hangs is killed, and named among the failures.
 */
export async function runFiles(files: string[], options: RunOptions): Promise<Outcome> {
  const { concurrency, signal, silenceMs = SILENCE_MS } = options;
  const outcome: Outcome = { failed: [], skipped: [] };
  const id = `${process.pid}-${++runs}`;
  const env = { ...process.env, NODE_COMPILE_CACHE: COMPILE_CACHE, [RUN_VARIABLE]: id };
  const events = run({ files, concurrency, cwd: ROOT, timeout: TEST_TIMEOUT_MS, env, ...(signal && { signal }) });
  const isLeftOut = ({ skip, todo }: { skip?: string | boolean; todo?: string | boolean }) =>
    skip !== undefined || todo !== undefined;
  events.on("test:pass", (test) => {
    if (isLeftOut(test)) outcome.skipped.push(test.name);
  });
  events.on("test:fail", (test) => {
    if (isLeftOut(test)) outcome.skipped.push(test.name);
    else outcome.failed.push(`${test.name}: ${firstLine(test.details.error)}`);
  });
  const silence = new Silence(silenceMs);
  for (const name of NEWS) events.on(name, () => silence.end());
  const printed = (async () => {
    for await (const text of events.compose(new spec())) process.stdout.write(text);
  })();
  const watched = silence.watch(() => outcome.failed.push(...endStarted(id, silenceMs)));
  await Promise.race([printed, watched]);
  silence.close();
  return outcome;
}

let runs = 0;

/** Kills what the run has started. @returns a failure for each, and one where there is nothing. */
function endStarted(id: string, silenceMs: number): string[] {
  const left = startedProcesses(id);
  for (const { pid } of left) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended meanwhile.
    }
  }
  const seconds = Math.round(silenceMs / 1000);
  if (left.length === 0) return [`the run: no news for ${seconds} s, and no process is left`];
  return left.map(({ pid, command }) => `process ${pid}: killed after ${seconds} s without news: ${command}`);
}

/** Time without news. */
class Silence {
  readonly #limitMs: number;
  readonly #closed = new AbortController();
  #since = performance.now();

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  end(): void {
    this.#since = performance.now();
  }

  close(): void {
    this.#closed.abort();
  }

  /** Calls `tooLong` once when the limit is reached, and resolves if that brings no end either, or when closed. */
  async watch(tooLong: () => void): Promise<void> {
    const { signal } = this.#closed;
    try {
      for (let left = this.#limitMs; left > 0; left = this.#limitMs - (performance.now() - this.#since))
        await delay(left, undefined, { signal });
      tooLong();
      await delay(GIVE_UP_MS, undefined, { signal });
    } catch {
      // Closed: the run has ended by itself.
    }
  }
}

/** What the test threw stands below an error of the runner's own. */
function firstLine({ cause, message }: Error): string {
  const [line = ""] = (cause instanceof Error ? cause.message : message).split("\n", 1);
  return line.slice(0, MAX_LINE);
}

const MAX_LINE = 300;
