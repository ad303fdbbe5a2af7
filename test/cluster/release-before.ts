import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { withLock } from "./lock.ts";
import { run } from "./node/run.ts";
import { productionDependencies, userCache } from "./product-image.ts";
import { type Progress, progressLines } from "./progress.ts";

const TOP = join(import.meta.dirname, "..", "..");
/** The release before this one: what it wrote is read, and what this one writes it can read. */
const RELEASE_BEFORE = "621b848952b311347f4f8b78f6bd3fd4daa32faf";

/**
 * The source tree of the release before, which runs as it is: from this checkout's history, with the dependencies of its lockfile,
 * kept in the user's cache. Undefined: the checkout lacks that history (a shallow clone).
 */
export async function releaseBefore(progress: Progress = progressLines()): Promise<string | undefined> {
  if (!(await hasHistory())) return undefined;
  const cache = userCache("releases");
  const target = join(cache, RELEASE_BEFORE.slice(0, 12));
  const waiting = () => progress.status("waiting for another process that unpacks the release before");
  await withLock(
    `${target}.lock`,
    async () => {
      if (!existsSync(target)) await unpack(cache, target, progress);
    },
    waiting,
  );
  return target;
}

/** Whether the whole tree of that commit is here: a clone without blobs (`--filter`) would ask its server for each, which may be gone. */
function hasHistory(): Promise<boolean> {
  const args = ["-C", TOP, "rev-list", "--objects", "--max-count=1", "--missing=error", "--quiet", RELEASE_BEFORE];
  const env = { ...process.env, GIT_NO_LAZY_FETCH: "1", GIT_TERMINAL_PROMPT: "0" };
  return new Promise((done) => execFile("git", args, { env, timeout: GIT_MS }, (error) => done(error === null)));
}

const GIT_MS = 60_000;

/** A tree that is half written never has the final name. */
async function unpack(cache: string, target: string, progress: Progress): Promise<void> {
  progress.say(`unpacking the release before (${RELEASE_BEFORE.slice(0, 7)}) and installing its dependencies, once`);
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, "partial-"));
  try {
    await run("git", "-C", TOP, "archive", "--output", `${folder}.tar`, RELEASE_BEFORE);
    await run("tar", "-C", folder, "-xf", `${folder}.tar`);
    await symlink(await productionDependencies(folder), join(folder, "node_modules"));
    await rename(folder, target);
  } finally {
    await rm(`${folder}.tar`, { force: true });
    await rm(folder, { recursive: true, force: true });
  }
}
