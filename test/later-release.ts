import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { copyTree, replaceInFile } from "./copy-tree.ts";

/**
 * A later release, for tests that run its writer beside today's reader: this tree in a folder of its own, with the
 * version of one document raised where `file` has `pattern`. Imports a module of it.
 */
export function laterRelease(file: string, pattern: RegExp, replacement: string) {
  const folder = mkdtempSync(join(tmpdir(), "switchback-later-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  copyTree(folder, (path) => /^(lib|extras|test\/fakes)\/|^package\.json$/.test(path) && !path.endsWith(".test.ts"));
  replaceInFile(join(folder, file), pattern, replacement);
  return <Module>(path: string): Promise<Module> => import(pathToFileURL(join(folder, path)).href);
}
