import type { KeyObject } from "node:crypto";
import { globSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ReleaseError } from "./error.ts";
import { fileHash } from "./file-hash.ts";
import type { Release, ReleasePart } from "./part.ts";
import { signatureOf } from "./sign.ts";

const SUMS = "SHA256SUMS";
const SIGNATURE = `${SUMS}.sig`;

/**
 * Makes `parts` in order, then SHA256SUMS of everything in the folder. The folder is new, empty, or has a release,
 * whose files are replaced. A folder with other files is refused, because SHA256SUMS would list them as part of the
 * release. With `signingKey`, the checksums are signed.
 */
export async function makeRelease(
  release: Release,
  parts: readonly ReleasePart[],
  signingKey?: KeyObject,
): Promise<void> {
  const { out, progress } = release;
  const found = filesIn(out);
  if (found.length > 0 && !found.includes(SUMS))
    throw new ReleaseError(`${out} has files that are not of a release: give --out a new or an empty folder`);
  await mkdir(out, { recursive: true });
  // Until the last part is made, an empty SHA256SUMS marks the folder as a release's.
  await writeFile(join(out, SUMS), "");
  await rm(join(out, SIGNATURE), { force: true });
  for (const part of parts) {
    progress.say(`${part.name} ...`);
    const written = await part.make(release);
    progress.say(`${part.name}: ${written.join(", ")}`);
  }
  const lines: string[] = [];
  for (const path of filesIn(out)) if (path !== SUMS) lines.push(`${await fileHash(join(out, path))}  ${path}\n`);
  await writeFile(join(out, SUMS), lines.join(""));
  if (signingKey !== undefined)
    await writeFile(join(out, SIGNATURE), signatureOf(await readFile(join(out, SUMS)), signingKey));
}

function filesIn(folder: string): string[] {
  return globSync("**/*", { cwd: folder, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}
