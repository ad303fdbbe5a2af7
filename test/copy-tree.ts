import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const TOP = join(import.meta.dirname, "..");

/**
 * Copies this checkout's sources, including uncommitted changes, into an empty folder. `isCopied` selects files by
 * their path from the root. The copy shares the installed packages.
 */
export function copyTree(folder: string, isCopied: (path: string) => boolean = () => true): string {
  const args = ["-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
  const paths = execFileSync("git", args, { encoding: "utf8" }).split("\0").filter(Boolean);
  for (const path of paths.filter(isCopied)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(TOP, path), join(folder, path));
  }
  symlinkSync(join(TOP, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** Throws if the pattern is not in the file. */
export function replaceInFile(path: string, pattern: RegExp, replacement: string): void {
  const text = readFileSync(path, "utf8");
  const changed = text.replace(pattern, replacement);
  if (changed === text) throw new Error(`${path} has no ${pattern}`);
  writeFileSync(path, changed);
}
