import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { userCache } from "./binaries.ts";
import { withLock } from "./lock.ts";
import { run } from "./node/run.ts";

/** Where root alone can write, apt's own user cannot. */
const DOWNLOAD = ["-o", "APT::Sandbox::User=root", "download"];

/**
 * Runs `apt-get` in `folder`, and asks nobody. One at a time on this machine: a second one fails at apt's own locks.
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

/** Why nothing can be had from Debian's servers here; undefined: it can. */
export function whyNoDebian(): string | undefined {
  return existsSync("/usr/bin/apt-get") ? undefined : "it comes from Debian's packages, and there is no apt here";
}

/**
 * Where Debian packages are unpacked in the user's cache, under `name`; downloaded the first time. Nothing is
 * installed, and no service is started. `packagesOf` names the packages, once apt is seen to have current lists.
 */
export async function unpackedDebian(name: string, packagesOf: () => Promise<readonly string[]>): Promise<string> {
  const target = userCache(name);
  if (existsSync(target)) return target;
  await mkdir(dirname(target), { recursive: true });
  // One process downloads, the others wait.
  await withLock(
    `${target}.lock`,
    async () => {
      if (!existsSync(target)) await unpackInto(target, packagesOf);
    },
    () => {},
  );
  return target;
}

async function unpackInto(target: string, packagesOf: () => Promise<readonly string[]>): Promise<void> {
  const folder = await mkdtemp(`${target}-`);
  try {
    const download = async () => await apt([...DOWNLOAD, ...(await packagesOf())], folder);
    await download().catch(async () => {
      // The machine's lists are older than Debian's servers.
      await apt(["update"]);
      await download();
    });
    const packages = (await readdir(folder)).filter((file) => file.endsWith(".deb"));
    for (const file of packages) await run("dpkg-deb", "--extract", join(folder, file), join(folder, "root"));
    await rename(join(folder, "root"), target);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Those that an installation of a package would add to this machine, and the package itself. */
export async function withMissing(name: string): Promise<string[]> {
  const simulated = await apt(["-s", "install", "--no-install-recommends", name]);
  return [...new Set([...Array.from(simulated.matchAll(/^Inst (\S+)/gm), ([, missing = ""]) => missing), name])];
}
