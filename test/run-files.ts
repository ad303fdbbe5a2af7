import { join } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { RUN_VARIABLE, startedProcesses } from "./processes.ts";

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
  /** Time without news of any test, in milliseconds, after which the run kills the processes that it waits for. */
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
/** Time that the runner has to end after every process that it could wait for is killed. */
const GIVE_UP_MS = 20_000;

const NEWS = ["test:enqueue", "test:dequeue", "test:complete", "test:pass", "test:fail", "test:stderr", "test:stdout"];

/**
 * Runs the files as `node --test` does, and prints what its spec reporter prints. The run always ends: the processes
 * that remain of a file that hangs are killed, and named among the failures.
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
  const { promise: givenUp, resolve: giveUp } = Promise.withResolvers<void>();
  const news = () => silence.refresh();
  const silence = setTimeout(() => {
    for (const name of NEWS) events.off(name, news);
    outcome.failed.push(...endStarted(id, silenceMs));
    setTimeout(giveUp, GIVE_UP_MS);
  }, silenceMs);
  for (const name of NEWS) events.on(name, news);
  const printed = (async () => {
    for await (const text of events.compose(new spec())) process.stdout.write(text);
  })();
  await Promise.race([printed, givenUp]);
  clearTimeout(silence);
  return outcome;
}

let runs = 0;

/**
 * Kills the remaining processes of the run. @returns a failure for each process, or one failure if no process
 * remains.
 */
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

/** The first line of what the test threw. The runner wraps it in its own error, as the `cause`. */
function firstLine({ cause, message }: Error): string {
  const [line = ""] = (cause instanceof Error ? cause.message : message).split("\n", 1);
  return line.slice(0, MAX_LINE);
}

const MAX_LINE = 300;
