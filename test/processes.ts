import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

/**
 * A minimal environment that hides everything else of the user's: only PATH, and the cache where Node keeps compiled
 * code. Without that cache, the start of `switchback` costs twice the CPU time.
 */
export function bareEnvironment(): { PATH?: string; NODE_COMPILE_CACHE?: string } {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { ...(PATH !== undefined && { PATH }), ...(NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE }) };
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
