import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

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
