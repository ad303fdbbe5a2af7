import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";

/**
 * A process that a run of tests has started, directly or through other processes. Its current parent does not matter.
 */
export interface StartedProcess {
  readonly pid: number;
  readonly command: string;
}

/**
 * Name of a variable in the environment of each test file's process. Processes that inherit this environment have it
 * too.
 */
export const RUN_VARIABLE = "SWITCHBACK_TEST_RUN";

/**
 * A minimal environment that hides everything else of the user's: only PATH, and the cache where Node keeps compiled
 * code. Without that cache, the start of `switchback` costs twice the CPU time.
 */
export function bareEnvironment(): { PATH?: string; NODE_COMPILE_CACHE?: string } {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { ...(PATH !== undefined && { PATH }), ...(NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE }) };
}

/**
 * The processes whose environment has `RUN_VARIABLE` with `value`, according to the kernel. A process keeps its
 * environment in a new session and after its parent's death. Only processes that were started with another
 * environment are not found. Empty if /proc is missing.
 */
export function startedProcesses(value: string): StartedProcess[] {
  const wanted = `${RUN_VARIABLE}=${value}`;
  return numericFolders("/proc").flatMap((pid) => {
    if (pid === process.pid || !read(`/proc/${pid}/environ`).split("\0").includes(wanted)) return [];
    return [{ pid, command: shown(read(`/proc/${pid}/cmdline`).split("\0").filter(Boolean)) }];
  });
}

/** Shortens a long command line: a test file's process has some thirty options before the file. */
function shown(words: readonly string[]): string {
  return words.length <= MAX_WORDS ? words.join(" ") : `${words[0]} ... ${words.at(-1)}`;
}

const MAX_WORDS = 8;

function numericFolders(folder: string): number[] {
  try {
    return readdirSync(folder).map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** A file's text; empty if the process is gone or belongs to another user. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/**
 * Kills a process if it still runs. A test may already have waited for its exit. Resolves after the exit, since
 * SIGKILL always succeeds.
 */
export async function killChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const killed = once(child, "exit");
  child.kill("SIGKILL");
  await killed;
}
