import { existsSync, readdirSync, readFileSync } from "node:fs";

// The files that belong to the program: in the repository, the image or the npm package. All paths are relative to the
// repository.

const TOP = new URL("..", import.meta.url);

/** The Kubernetes YAML that the demo shows. */
export const EXAMPLES = "examples/demo";

/** The text of one of this program's files. Throws if it does not exist. */
export function ownFile(path: string): string {
  return readFileSync(new URL(path, TOP), "utf8");
}

/** Whether this program has the file or folder. */
export function hasOwnFile(path: string): boolean {
  return existsSync(new URL(path, TOP));
}

/** The texts of the files in one of this program's folders, in the order of their names. */
export function ownFolder(path: string): string[] {
  const names = readdirSync(new URL(path, TOP)).sort();
  return names.map((name) => ownFile(`${path}/${name}`));
}
