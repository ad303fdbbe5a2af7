import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ARCHITECTURES, type DebianPins, debianFile, pins, readDebianPins } from "#tools/release/image/base.ts";
import { debianPackage } from "#tools/release/image/fetch.ts";
import { newestPackages } from "#tools/release/image/refresh.ts";
import { userCache } from "./binaries.ts";
import { withLock } from "./lock.ts";
import { progressLines } from "./progress.ts";

/** Packages that are available now, and the arguments that make the release command use them. */
export interface UsableBase {
  readonly debian: DebianPins;
  readonly args: readonly string[];
}

/**
 * The Debian packages for a test's image. By default, they are those in tools/release/image/base.json. If Debian has
 * replaced one of them and its archive is not reachable, they are the newest ones. The tests do not depend on a
 * version, so Debian's updates do not make them fail.
 */
export async function usableBase(): Promise<UsableBase> {
  const problem = await problemWith(pins.debian);
  if (problem === undefined) return { debian: pins.debian, args: [] };
  const progress = progressLines();
  progress.say(`${problem}; the tests take the newest packages`);
  const hash = createHash("sha256").update(JSON.stringify(pins.debian)).digest("hex").slice(0, 16);
  const file = join(userCache("release"), `newest-base-${hash}.json`);
  const waiting = () => progress.status("waiting for another process that asks Debian for its newest packages");
  await withLock(`${file}.lock`, () => provide(file), waiting);
  return { debian: readDebianPins(file), args: ["--base", file] };
}

async function provide(file: string): Promise<void> {
  if (existsSync(file) && (await problemWith(readDebianPins(file))) === undefined) return;
  await mkdir(dirname(file), { recursive: true });
  await writeFile(`${file}.partial`, JSON.stringify({ debian: await newestPackages(pins.debian) }));
  await rename(`${file}.partial`, file);
}

/** Why these packages are not available. Undefined: they are in the user's cache now. */
async function problemWith(debian: DebianPins): Promise<string | undefined> {
  const files = debian.packages.flatMap((one) => ARCHITECTURES.map((of) => debianFile(debian, one, of)));
  const results = await Promise.allSettled(files.map(debianPackage));
  const failed = results.find(({ status }) => status === "rejected") as PromiseRejectedResult | undefined;
  return failed && String((failed.reason as Error).message);
}
