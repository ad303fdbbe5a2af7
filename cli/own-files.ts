import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, isAbsolute, join, relative } from "node:path";
// Not imported by name: Node has `getAssetKeys` only since 22.20. Only executables call it, and they contain their
// own Node.
import * as sea from "node:sea";
import { fileURLToPath } from "node:url";

// The files that belong to the program. They are on disk (the repository, the image, the npm package), or inside a
// single executable, where Node calls them assets. All paths are relative to the repository.

const TOP = new URL("..", import.meta.url);

/** The Kubernetes YAML that the demo shows by default. */
export const EXAMPLES = "examples/demo";

/** The text of one of this program's files. Throws if it does not exist. */
export function ownFile(path: string): string {
  return sea.isSea() ? sea.getAsset(path, "utf8") : readFileSync(new URL(path, TOP), "utf8");
}

/** Whether this program has the file. */
export function hasOwnFile(path: string): boolean {
  return sea.isSea() ? sea.getAssetKeys().includes(path) : existsSync(new URL(path, TOP));
}

/** Whether this program has the folder. An executable has it if it contains any file below it. */
export function hasOwnFolder(path: string): boolean {
  return sea.isSea() ? assetsIn(path).length > 0 : existsSync(new URL(path, TOP));
}

/**
 * Calls `work` with the path of one of this program's folders. An executable first copies the folder to a temporary
 * one, and removes the copy afterwards.
 */
export async function withOwnFolder(path: string, work: (folder: string) => Promise<void>): Promise<void> {
  if (!sea.isSea()) return await work(shortest(fileURLToPath(new URL(path, TOP))));
  const copy = mkdtempSync(join(tmpdir(), `switchback-${basename(path)}-`));
  try {
    for (const asset of assetsIn(path)) {
      const file = join(copy, asset.slice(path.length + 1));
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, sea.getAsset(asset, "utf8"));
    }
    await work(copy);
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/**
 * The command that starts this program again, without arguments. An executable is its own script: it would take a
 * second path for the name of a command.
 */
export function ownCommand(): readonly [string, ...string[]] {
  const [, script = ""] = process.argv;
  return sea.isSea() ? [process.execPath] : [process.execPath, script];
}

/** The path as a person would write it: relative if it is below the working directory. */
function shortest(path: string): string {
  const short = relative("", path);
  return short.startsWith("..") || isAbsolute(short) ? path : short;
}

function assetsIn(folder: string): string[] {
  return sea.getAssetKeys().filter((path) => path.startsWith(`${folder}/`));
}
