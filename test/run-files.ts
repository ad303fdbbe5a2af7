import { join } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";

const ROOT = join(import.meta.dirname, "..");

export interface Outcome {
  /**
   * Each entry has the test's name and the first line of its error. The whole error is in the test's output, perhaps
   * far above.
   */
  failed: string[];
  skipped: string[];
}

export interface RunOptions {
  /** How many files run at a time. Each runs in its own process. */
  concurrency: number;
  signal?: AbortSignal;
  /** Time without news of any test, in milliseconds, after which the run ends. */
  silenceMs?: number;
}

/** Where Node keeps compiled source files. `npm ci` deletes it. */
const COMPILE_CACHE = join(ROOT, "node_modules", ".cache", "node");
/** A test that hangs fails after this time, and the other tests still run. */
const TEST_TIMEOUT_MS = 10 * 60_000;
/**
 * A test that hangs is news at the latest after TEST_TIMEOUT_MS. But a file with finished tests may stay open, for
 * example because of a server that a failed test did not close. A process that the file started may also hold its
 * output. The runner waits for both without a limit.
 */
const SILENCE_MS = TEST_TIMEOUT_MS + 60_000;

const NEWS = ["test:enqueue", "test:dequeue", "test:complete", "test:pass", "test:fail", "test:stderr", "test:stdout"];

/**
 * Runs the files as `node --test` does, and prints what its spec reporter prints. The run always ends: after a time
 * without news, it ends the processes of the files, and names the files among the failures.
 */
export async function runFiles(files: string[], options: RunOptions): Promise<Outcome> {
  const { concurrency, signal, silenceMs = SILENCE_MS } = options;
  const outcome: Outcome = { failed: [], skipped: [] };
  const env = { ...process.env, NODE_COMPILE_CACHE: COMPILE_CACHE };
  const silent = new AbortController();
  const stop = AbortSignal.any([silent.signal, ...(signal ? [signal] : [])]);
  const events = run({ files, concurrency, cwd: ROOT, timeout: TEST_TIMEOUT_MS, env, signal: stop });
  const isLeftOut = ({ skip, todo }: { skip?: string | boolean; todo?: string | boolean }) =>
    skip !== undefined || todo !== undefined;
  events.on("test:pass", (test) => {
    if (isLeftOut(test)) outcome.skipped.push(test.name);
  });
  events.on("test:fail", (test) => {
    if (isLeftOut(test)) outcome.skipped.push(test.name);
    else outcome.failed.push(`${test.name}: ${firstLine(test.details.error)}`);
  });
  const silence = setTimeout(() => silent.abort(new Error(`no news for ${Math.round(silenceMs / 1000)} s`)), silenceMs);
  for (const name of NEWS) events.on(name, () => silence.refresh());
  for await (const text of events.compose(new spec())) process.stdout.write(text);
  clearTimeout(silence);
  return outcome;
}

/** The first line of what the test threw. The runner wraps it in its own error, as the `cause`. */
function firstLine({ cause, message }: Error): string {
  const [line = ""] = (cause instanceof Error ? cause.message : message).split("\n", 1);
  return line.slice(0, MAX_LINE);
}

const MAX_LINE = 300;
