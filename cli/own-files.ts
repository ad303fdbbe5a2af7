import { existsSync, readFileSync } from "node:fs";
import { isAbsolute, relative } from "node:path";
import { fileURLToPath } from "node:url";

// The files that belong to the program: in the repository, the image or the npm package. All paths are relative to the
// repository.

const TOP = new URL("..", import.meta.url);

/** The Kubernetes YAML that the demo shows by default. */
export const EXAMPLES = "examples/demo";

/** The text of one of this program's files. Throws if it does not exist. */
export function ownFile(path: string): string {
  return readFileSync(new URL(path, TOP), "utf8");
}

/** Whether this program has the file. */
export function hasOwnFile(path: string): boolean {
  return existsSync(new URL(path, TOP));
}

/** Whether this program has the folder. */
export function hasOwnFolder(path: string): boolean {
  return existsSync(new URL(path, TOP));
}

/** The path of one of this program's folders, as a person would write it: relative below the working directory. */
export function ownFolder(path: string): string {
  const folder = fileURLToPath(new URL(path, TOP));
  const short = relative("", folder);
  return short.startsWith("..") || isAbsolute(short) ? folder : short;
}
