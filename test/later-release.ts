import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { copyTree, replaceInFile } from "./copy-tree.ts";

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
