import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

export interface TestRun {
  verdict: "green" | "red" | "timeout";
  ms: number;
  /** Red: the first test that failed, or the end of what was written. */
  detail: string;
}

/** A mutant that allocates for ever fails before the machine suffers. */
const HEAP_MB = 2048;
const MAX_DETAIL = 2000;

/** Where a test file is run: its tree, and a folder for what it leaves behind. */
export interface Surroundings {
  tree: string;
  temp: string;
  signal: AbortSignal;
}

/** Runs one test file in a process group of its own, which is gone when this returns. The first failed test ends it. */
export async function runTest(file: string, timeoutMs: number, { tree, temp, signal }: Surroundings): Promise<TestRun> {
  const started = performance.now();
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, [`--max-old-space-size=${HEAP_MB}`, "--test-reporter=tap", file], {
    cwd: tree,
    env: { ...env, TMPDIR: temp },
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
  let failed: string | undefined;
  let tail = "";
  const read = (line: string): void => {
    tail = `${tail}${line}\n`.slice(-MAX_DETAIL);
    const match = /^\s*not ok \d+ - (.*)$/.exec(line);
    if (match === null || failed !== undefined || / # (TODO|SKIP)/.test(line)) return;
    failed = match[1] ?? "";
    stop();
  };
  for (const input of [child.stdout, child.stderr]) createInterface({ input }).on("line", read);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (status) => {
      stop();
      resolve(status);
    });
  });
  clearTimeout(timer);
  signal.removeEventListener("abort", stop);
  signal.throwIfAborted();
  const ms = performance.now() - started;
  if (failed !== undefined) return { verdict: "red", ms, detail: failed };
  if (isTimeout) return { verdict: "timeout", ms, detail: `after ${timeoutMs} ms` };
  return code === 0 ? { verdict: "green", ms, detail: "" } : { verdict: "red", ms, detail: tail };
}

function stopGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group is gone already.
  }
}
