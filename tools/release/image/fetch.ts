import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { userCache } from "#test/cluster/binaries.ts";
import { withLock } from "#test/cluster/lock.ts";
import { run } from "#test/cluster/node/run.ts";
import { ReleaseError } from "../error.ts";
import type { DebianFile } from "./base.ts";

/** apt's own downloader, which uses the machine's proxies and checks the hash. */
const APT_HELPER = "/usr/lib/apt/apt-helper";
/** Server with the newest version of each package. */
const SERVER = "http://deb.debian.org";
/** Server with every version that Debian ever published, by time. */
const SNAPSHOT = "https://snapshot.debian.org/archive";
const HELPER_OPTIONS = ["-o", "Acquire::Retries=3"];

/**
 * Returns the path of a Debian package. Takes it from the user's cache, else from Debian's servers, else from
 * Debian's snapshot archive.
 */
export async function debianPackage({ path, sha256, snapshot }: DebianFile): Promise<string> {
  return await cached(`${sha256}.deb`, async (folder) => {
    if (!existsSync(APT_HELPER))
      throw new ReleaseError(`${APT_HELPER} is not here: make the release on Debian or Ubuntu, or a container of one`);
    const target = join(folder, "package.deb");
    const get = (address: string) =>
      run(APT_HELPER, ...HELPER_OPTIONS, "download-file", address, target, `SHA256:${sha256}`);
    await get(`${SERVER}/${path}`).catch((first: Error) =>
      get(`${SNAPSHOT}/${path.replace("/", `/${snapshot}/`)}`).catch(() => {
        throw new ReleaseError(
          `${path}: Debian has replaced it, and its archive cannot be reached; \`npm run release -- ` +
            `--refresh-base\` takes the newest (${first.message})`,
        );
      }),
    );
    return target;
  });
}

/** Returns the path of an npm package as published. `integrity` has the form of the lockfile. */
export async function npmPackage(name: string, version: string, integrity: string): Promise<string> {
  const key = Buffer.from(integrity.replace("sha512-", ""), "base64").toString("hex").slice(0, 64);
  return await cached(`${key}.tgz`, async (folder) => {
    const options = [
      "--loglevel=error",
      "--fetch-retries=2",
      "--fetch-retry-maxtimeout=10000",
      "--pack-destination",
      folder,
    ];
    const pack = () => run("npm", "pack", ...options, `${name}@${version}`);
    // Other processes write to npm's cache at the same time, so an entry may be incomplete.
    const output = await pack().catch(pack).catch(pack);
    const target = join(folder, output.trim().split("\n").at(-1) ?? "");
    const found = `sha512-${createHash("sha512")
      .update(await readFile(target))
      .digest("base64")}`;
    if (found !== integrity) throw new ReleaseError(`${name} ${version}: its integrity is ${found}, not ${integrity}`);
    return target;
  });
}

/**
 * Returns a file of the user's cache. Makes it in a temporary folder the first time, so that an incomplete file never
 * has the final name.
 */
async function cached(name: string, make: (folder: string) => Promise<string>): Promise<string> {
  const cache = userCache("release");
  const target = join(cache, name);
  if (existsSync(target)) return target;
  // One process downloads, and the others wait.
  return await withLock(
    `${target}.lock`,
    async () => (existsSync(target) ? target : await download(cache, target, make)),
    () => {},
  );
}

async function download(cache: string, target: string, make: (folder: string) => Promise<string>): Promise<string> {
  const folder = await mkdtemp(join(cache, "partial-"));
  try {
    await rename(await make(folder), target);
    return target;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
