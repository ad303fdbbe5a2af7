import { readdirSync, readFileSync } from "node:fs";

/** A process that a run of tests has started, at any depth, whatever its parent is now. */
export interface StartedProcess {
  readonly pid: number;
  readonly command: string;
}

/** In the environment of each test file's process, and of what that starts with its own environment. */
export const RUN_VARIABLE = "SWITCHBACK_TEST_RUN";

/**
 * The environment of a process that sees nothing else of the user's: where programs are, and where Node keeps what it
 * compiles. Without that cache, the start of `switchback` costs twice the CPU time.
 */
export function bareEnvironment(): { PATH?: string; NODE_COMPILE_CACHE?: string } {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { ...(PATH !== undefined && { PATH }), ...(NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE }) };
}

/**
 * The processes whose environment has `RUN_VARIABLE` with `value`, as the kernel shows it: a process cannot leave
 * this by a new session or by the death of its parent. Only what was started with an environment of its own is not
 * found. Empty where there is no /proc.
 */
export function startedProcesses(value: string): StartedProcess[] {
  const wanted = `${RUN_VARIABLE}=${value}`;
  return numericFolders("/proc").flatMap((pid) => {
    if (pid === process.pid || !read(`/proc/${pid}/environ`).split("\0").includes(wanted)) return [];
    return [{ pid, command: shown(read(`/proc/${pid}/cmdline`).split("\0").filter(Boolean)) }];
  });
}

/** A test file stands at the end of some thirty options. */
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

/** Nothing, where the process is gone or another user's. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
