import { mkdir, rm, stat, utimes, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const HEARTBEAT_MS = 3_000;
const POLL_MS = 500;

/** How long a lock file may go untouched before its holder counts as dead. */
const STALE_MS = 20_000;

/**
 * Runs `work` while holding the lock file `path`, across processes. The holder touches the file; one that was killed is
 * told by its age, not by its process id, which another process may have by now. `waiting` is called at each poll.
 *
 * Should two processes ever take over one stale lock at the same moment, both do the work: callers must survive that.
 */
export async function withLock<T>(path: string, work: () => Promise<T>, waiting: () => void): Promise<T> {
  await mkdir(dirname(path), { recursive: true });
  while (!(await create(path))) {
    if (await isStale(path)) await rm(path, { force: true });
    else {
      waiting();
      await delay(POLL_MS);
    }
  }
  const heartbeat = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => {});
  }, HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    await rm(path, { force: true });
  }
}

async function create(path: string): Promise<boolean> {
  try {
    await writeFile(path, `${process.pid}\n`, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

async function isStale(path: string): Promise<boolean> {
  try {
    // Of the future, where a clock was set back: nobody touches that either.
    return Math.abs(Date.now() - (await stat(path)).mtimeMs) > STALE_MS;
  } catch {
    return false;
  }
}
