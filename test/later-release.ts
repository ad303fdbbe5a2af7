import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * A later release, for tests that run its writer with today's reader. It is a copy of this tree in which the version
 * of one document is raised where `file` matches `pattern`. Imports a module of the copy.
 */
export function laterRelease(file: string, pattern: RegExp, replacement: string) {
  const folder = mkdtempSync(join(tmpdir(), "switchback-later-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  copyTree(folder, (path) => /^(lib|extras|test\/fakes)\/|^package\.json$/.test(path) && !path.endsWith(".test.ts"));
  replaceInFile(join(folder, file), pattern, replacement);
  return <Module>(path: string): Promise<Module> => import(pathToFileURL(join(folder, path)).href);
}

const TOP = join(import.meta.dirname, "..");

/**
 * Copies this checkout's sources, including uncommitted changes, into an empty folder. `isCopied` selects files by
 * their path from the root. The copy shares the installed packages.
 */
function copyTree(folder: string, isCopied: (path: string) => boolean = () => true): string {
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
function replaceInFile(path: string, pattern: RegExp, replacement: string): void {
  const text = readFileSync(path, "utf8");
  const changed = text.replace(pattern, replacement);
  if (changed === text) throw new Error(`${path} has no ${pattern}`);
  writeFileSync(path, changed);
}
