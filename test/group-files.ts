import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const ROOT = join(import.meta.dirname, "..");

/**
 * Maximum number of files in a process. Each start of a process costs a fifth of a second, and at the end the run
 * waits for each group.
 */
const MAX_GROUP = 20;

/** A file that uses these may affect the others in its process. It gets its own process. */
const NEEDS_OWN_PROCESS =
  /node:child_process|node:worker_threads|globalThis|syncBuiltin|process\.(?!pid|platform|version|execPath|hrtime|nextTick)/;

/**
 * Puts test files of one top folder into groups that share a process. Returns the files to run instead: an entry file
 * for each group, and the files that need their own process. An entry file runs each of its files as a suite with the
 * file's name. `remove` deletes the entry files.
 */
export function groupFiles(files: readonly string[]): { readonly entries: string[]; readonly remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), "switchback-tests-"));
  const alone: string[] = [];
  const groups = new Map<string, string[][]>();
  for (const file of files) {
    if (NEEDS_OWN_PROCESS.test(readFileSync(join(ROOT, file), "utf8"))) alone.push(file);
    else addTo(groups, file);
  }
  const entries = [...groups.values()].flat().map((group) => {
    const [first = ""] = group;
    const entry = join(folder, `${group.length}-files-from-${first.replaceAll("/", "-")}.mjs`);
    writeFileSync(entry, entryText(group));
    return entry;
  });
  return { entries: [...alone, ...entries], remove: () => rmSync(folder, { recursive: true }) };
}

function addTo(groups: Map<string, string[][]>, file: string): void {
  const top = topOf(file);
  const ofTop = groups.get(top) ?? [[]];
  const last = ofTop.at(-1);
  if (last === undefined || last.length === MAX_GROUP) ofTop.push([file]);
  else last.push(file);
  groups.set(top, ofTop);
}

function topOf(file: string): string {
  return file.split("/", 1)[0] ?? "";
}

/** Each file is imported inside a suite, so that hooks at the top of the file belong to this suite. */
function entryText(files: readonly string[]): string {
  const urls = files.map((file) => [file, pathToFileURL(join(ROOT, file)).href]);
  return `import { describe } from "node:test";
for (const [file, url] of ${JSON.stringify(urls, null, 2)}) describe(file, async () => void (await import(url)));
`;
}
