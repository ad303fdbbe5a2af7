import { type ChildProcess, type ChildProcessByStdio, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

export interface TestRun {
  outcome: "green" | "red" | "timeout";
  ms: number;
  /** If red: the first failed test, or the end of the output. */
  detail: string;
}

/** A mutant that allocates forever fails before it affects the machine. */
const HEAP_MB = 2048;
const MAX_TAIL = 2000;
/** Time after the end of a test to read its last output. */
const CLOSING_MS = 1000;

type Reading = ChildProcessByStdio<null, Readable, Readable>;

/** Where a test file runs: its tree, and a folder for its temporary files. */
export interface Surroundings {
  tree: string;
  temp: string;
  signal: AbortSignal;
}

/**
 * Runs one test file in its own process group, which has ended when this returns. The first failed test ends the run.
 * With `coverage`, each process of the run that ends by itself writes its coverage to that folder.
 */
export async function runTest(
  file: string,
  { tree, temp, signal }: Surroundings,
  { timeoutMs, coverage }: { timeoutMs: number; coverage?: string },
): Promise<TestRun> {
  signal.throwIfAborted();
  const started = performance.now();
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, [`--max-old-space-size=${HEAP_MB}`, "--test-reporter=tap", file], {
    cwd: tree,
    env: { ...env, TMPDIR: temp, ...(coverage !== undefined && { NODE_V8_COVERAGE: coverage }) },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const stop = (): void => stopGroup(child);
  signal.addEventListener("abort", stop);
  let isTimeout = false;
  const timer = setTimeout(() => {
    isTimeout = true;
    stop();
  }, timeoutMs);
  const output = follow(child, stop);
  const code = await ended(child);
  clearTimeout(timer);
  signal.removeEventListener("abort", stop);
  signal.throwIfAborted();
  const ms = performance.now() - started;
  if (output.failed !== undefined) return { outcome: "red", ms, detail: output.failed };
  if (isTimeout) return { outcome: "timeout", ms, detail: `after ${timeoutMs} ms` };
  const detail = `ended by ${code}: ${output.tail}`;
  return code === 0 ? { outcome: "green", ms, detail: "" } : { outcome: "red", ms, detail };
}

/** The first failed test and the end of the process's output. Both change while the process runs. */
function follow({ stdout, stderr }: Reading, onFailed: () => void): { failed?: string; tail: string } {
  const output: { failed?: string; tail: string } = { tail: "" };
  const read = (line: string): void => {
    output.tail = `${output.tail}${line}\n`.slice(-MAX_TAIL);
    const match = /^\s*not ok \d+ - (.*)$/.exec(line);
    if (match === null || output.failed !== undefined || / # (TODO|SKIP)/.test(line)) return;
    output.failed = match[1] ?? "";
    onFailed();
  };
  for (const input of [stdout, stderr]) createInterface({ input }).on("line", read);
  return output;
}

/**
 * The exit code, or the signal that ended the process. Then ends all processes that it started, so that none keeps
 * its output open.
 */
async function ended(child: Reading): Promise<number | NodeJS.Signals | null> {
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      stopGroup(child);
      const closing = setTimeout(() => {
        child.stdout.destroy();
        child.stderr.destroy();
      }, CLOSING_MS);
      child.once("close", () => {
        clearTimeout(closing);
        resolve(code ?? signal);
      });
    });
  });
}

function stopGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group has already ended.
  }
}
