import { type Dirent, readdirSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import { STDIN } from "./text-file.ts";

/** The files of a directory that kubectl reads. */
const MANIFEST = /\.(?:ya?ml|json)$/;

/**
 * Returns the files that a command line names, in that order. A directory is replaced by its manifests, sorted by
 * name; with `recursive`, also by those in its subfolders. Throws `input-invalid` for a directory that cannot be read
 * or has no manifests, and for a second `-`.
 */
export function findFiles(named: readonly string[], recursive: boolean): string[] {
  if (named.filter((name) => name === STDIN).length > 1) {
    throw new SwitchbackError("input-invalid", "-: standard input can be read once");
  }
  return named.flatMap((name) => {
    if (name === STDIN || !statOf(name)?.isDirectory()) return [name];
    const files = manifestsIn(name, recursive);
    if (files.length > 0) return files;
    const where = recursive ? "it and its folders have" : "it has";
    const hint = recursive ? "" : " (-R looks into its folders, too)";
    throw new SwitchbackError("input-invalid", `${name}: ${where} no file *.yaml, *.yml or *.json${hint}`);
  });
}

/** Undefined if the path does not exist or cannot be reached. Reading it then reports why. */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

function manifestsIn(directory: string, recursive: boolean): string[] {
  let entries: Dirent[];
  try {
    entries = readdirSync(directory, { withFileTypes: true });
  } catch (error) {
    throw new SwitchbackError("input-invalid", `cannot read ${directory}: ${describeError(error)}`);
  }
  return entries
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(directory, entry.name);
      // Links to folders are not followed, because they may form a loop.
      if (entry.isDirectory()) return recursive ? manifestsIn(path, recursive) : [];
      // A pipe is left out: reading it would wait for its writer.
      return MANIFEST.test(entry.name) && (statOf(path)?.isFile() ?? true) ? [path] : [];
    });
}
