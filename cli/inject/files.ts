import { isUtf8 } from "node:buffer";
import { type Dirent, readdirSync, readFileSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";

/** A text file, with the name that messages use for it. */
export interface TextFile {
  readonly name: string;
  /** Has no byte order mark. */
  readonly text: string;
}

/** The file name that means standard input. */
const STDIN = "-";
/** The files of a directory that kubectl reads. */
const MANIFEST = /\.(?:ya?ml|json)$/;
const BYTE_ORDER_MARK = "\ufeff";

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

/**
 * Reads a text file in UTF-8, or standard input for `-`. Throws `input-invalid` for unreadable files and other
 * encodings.
 */
export function readTextFile(file: string): TextFile {
  const name = file === STDIN ? "standard input" : file;
  let bytes: Buffer;
  try {
    bytes = readFileSync(file === STDIN ? 0 : file);
  } catch (error) {
    throw new SwitchbackError("input-invalid", `cannot read ${name}: ${describeError(error)}`);
  }
  const mark = bytes.subarray(0, 2).toString("hex");
  // PowerShell's `>` writes UTF-16.
  if (mark === "fffe" || mark === "feff") {
    throw new SwitchbackError("input-invalid", `${name}: is UTF-16; \`iconv -f UTF-16 -t UTF-8\` converts it to UTF-8`);
  }
  const text = bytes.toString("utf8");
  if (!isUtf8(bytes) || bytes.includes(0)) {
    const line = text.slice(0, text.search(/[\0\ufffd]/)).split("\n").length;
    throw new SwitchbackError("input-invalid", `${name}:${line}: is not text in UTF-8`);
  }
  return { name, text: text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text };
}
