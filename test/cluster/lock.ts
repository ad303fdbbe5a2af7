import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
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

/**
 * Makes a folder once, and returns its path. `make` fills another folder, which then gets this name, so that the
 * folder is never incomplete. One process makes it, and the others wait.
 */
export async function madeOnce(path: string, make: (folder: string) => Promise<void>): Promise<string> {
  const work = async () => {
    if (existsSync(path)) return;
    const folder = await mkdtemp(`${path}-`);
    try {
      await make(folder);
      await rename(folder, path);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };
  if (!existsSync(path)) await withLock(`${path}.lock`, work, () => {});
  return path;
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
