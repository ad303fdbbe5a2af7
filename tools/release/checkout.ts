import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ReleaseError } from "./error.ts";
import type { Release } from "./part.ts";

/**
 * Version and time of a checkout. The time is SOURCE_DATE_EPOCH (`given`), as reproducible-builds.org specifies it,
 * or else the time of the last commit. Throws a ReleaseError if there are uncommitted changes, unless `dirty`.
 */
export function describeCheckout(
  source: string,
  { given, dirty }: { readonly given: string | undefined; readonly dirty: boolean },
): Pick<Release, "source" | "version" | "epochSeconds"> {
  const changed = dirty ? "" : git(source, "status", "--porcelain").trimEnd();
  if (changed !== "")
    throw new ReleaseError(`${source} has changes that are not committed; commit them, or give --dirty:\n${changed}`);
  const { version } = JSON.parse(readFileSync(join(source, "package.json"), "utf8")) as { version: string };
  const epoch = given || git(source, "log", "-1", "--format=%ct").trim();
  if (!/^\d{1,11}$/.test(epoch))
    throw new ReleaseError(`SOURCE_DATE_EPOCH ${JSON.stringify(epoch)} is not a number of seconds since 1970`);
  return { source, version, epochSeconds: Number(epoch) };
}

function git(source: string, ...args: string[]): string {
  try {
    return execFileSync("git", ["-C", source, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (cause) {
    throw new ReleaseError(`${source} is not a git checkout: a release is made from one`, { cause });
  }
}
