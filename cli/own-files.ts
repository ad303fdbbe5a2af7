import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, isAbsolute, join, relative } from "node:path";
// Not by name: Node has `getAssetKeys` since 22.20, and only executables, which bring their own Node, call it.
import * as sea from "node:sea";
import { fileURLToPath } from "node:url";

// What belongs to the program, whichever way it was installed: as files (the repository, the image, the npm
// package) or inside of a single executable, where Node calls them assets. Paths are those of the repository.

const TOP = new URL("..", import.meta.url);

/** Kubernetes YAML: what the demo shows by default. */
export const EXAMPLES = "examples/demo";

/** The text of a file of this program. Throws if it has none of that name. */
export function ownFile(path: string): string {
  return sea.isSea() ? sea.getAsset(path, "utf8") : readFileSync(new URL(path, TOP), "utf8");
}

/** Whether this program has a file. */
export function hasOwnFile(path: string): boolean {
  return sea.isSea() ? sea.getAssetKeys().includes(path) : existsSync(new URL(path, TOP));
}

/** Whether this program has a folder with anything in it. */
export function hasOwnFolder(path: string): boolean {
  return sea.isSea() ? assetsIn(path).length > 0 : existsSync(new URL(path, TOP));
}

/**
 * Calls `work` with the path of a folder of this program; of an executable, that of a temporary copy, which is
 * removed afterwards.
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
 * The command that starts this program again, to be followed by its arguments. An executable is its own script: its
 * path given once more would be taken for the name of a command.
 */
export function ownCommand(): readonly [string, ...string[]] {
  const [, script = ""] = process.argv;
  return sea.isSea() ? [process.execPath] : [process.execPath, script];
}

/** As a person would write it: relative, if it is below the working directory. */
function shortest(path: string): string {
  const short = relative("", path);
  return short.startsWith("..") || isAbsolute(short) ? path : short;
}

function assetsIn(folder: string): string[] {
  return sea.getAssetKeys().filter((path) => path.startsWith(`${folder}/`));
}
