import { mkdir, rm, stat, utimes, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const HEARTBEAT_MS = 3_000;
const POLL_MS = 500;

/** Time without a touch of the lock file, after which its holder counts as dead. */
const STALE_MS = 20_000;

/**
 * Runs `work` while holding the lock file `path`, across processes. The holder touches the file regularly. The age of
 * the file shows that a holder was killed. Its process id would not show it, because another process may have the
 * same id by now. `waiting` is called at each poll.
 *
 * If two processes ever take over a stale lock at the same moment, both run `work`. Callers must survive that.
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
    // The time may be in the future, after the clock was set back. Such a file has no live holder either.
    return Math.abs(Date.now() - (await stat(path)).mtimeMs) > STALE_MS;
  } catch {
    return false;
  }
}
