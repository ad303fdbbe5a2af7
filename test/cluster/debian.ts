import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { userCache } from "./binaries.ts";
import { madeOnce, withLock } from "./lock.ts";
import { run } from "./node/run.ts";

/** apt downloads as root, because its own user cannot write to a folder that only root can write to. */
const DOWNLOAD = ["-o", "APT::Sandbox::User=root", "download"];

/**
 * Runs `apt-get` in `folder` without questions. Only one runs on this machine at a time: a second one would fail
 * because of apt's own locks.
 * @returns its standard output.
 */
export async function apt(args: readonly string[], folder = "/"): Promise<string> {
  const command = ["-C", folder, "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", ...args];
  return await withLock(
    userCache("apt.lock"),
    async () => await run("env", ...command),
    () => {},
  );
}

/** Why Debian packages are not available here; undefined if they are. */
export function whyNoDebian(): string | undefined {
  return existsSync("/usr/bin/apt-get") ? undefined : "it comes from Debian's packages, and apt is missing";
}

/**
 * The folder in the user's cache where the packages are unpacked, under `name`. They are downloaded the first time.
 * Nothing is installed, and no service is started. `packagesOf` returns the packages' names. If the download fails,
 * apt's lists are updated and it is called again.
 */
export async function unpackedDebian(name: string, packagesOf: () => Promise<readonly string[]>): Promise<string> {
  return await madeOnce(userCache(name), async (folder) => {
    const files = await mkdtemp(`${folder}.packages-`);
    try {
      const download = async () => await apt([...DOWNLOAD, ...(await packagesOf())], files);
      await download().catch(async () => {
        // The machine's package lists are older than those of Debian's servers.
        await apt(["update"]);
        await download();
      });
      const packages = (await readdir(files)).filter((file) => file.endsWith(".deb"));
      for (const file of packages) await run("dpkg-deb", "--extract", join(files, file), folder);
    } finally {
      await rm(files, { recursive: true, force: true });
    }
  });
}

/** A package and those of its dependencies that this machine lacks. */
export async function withMissing(name: string): Promise<string[]> {
  const simulated = await apt(["-s", "install", "--no-install-recommends", name]);
  return [...new Set([...Array.from(simulated.matchAll(/^Inst (\S+)/gm), ([, missing = ""]) => missing), name])];
}
