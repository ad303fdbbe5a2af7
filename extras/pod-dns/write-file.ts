import { rename, rm, writeFile } from "node:fs/promises";

/** Characters per write, so that a large file is never in memory as a whole. */
const BATCH = 64 * 1024;

/**
 * Replaces a file as a whole: CoreDNS reads the old one or the new one. It is not synced to the disk, because after a
 * crash of the node the sidecar writes it again before CoreDNS starts.
 */
export async function replaceFile(path: string, text: string | Iterable<string>): Promise<void> {
  const partial = partialOf(path);
  try {
    await writeFile(partial, typeof text === "string" ? text : batchesOf(text));
    await rename(partial, path);
  } catch (error) {
    await removePartial(path);
    throw error;
  }
}

/** Deletes the rest of an unfinished write. On a full volume, it would leave no room even for a small file. */
export async function removePartial(path: string): Promise<void> {
  // If it cannot be deleted, it is no file of ours, and the next write reports it.
  await rm(partialOf(path), { force: true }).catch(() => {});
}

function partialOf(path: string): string {
  return `${path}.new`;
}

function* batchesOf(texts: Iterable<string>): Generator<string> {
  let batch: string[] = [];
  let size = 0;
  for (const text of texts) {
    batch.push(text);
    size += text.length;
    if (size < BATCH) continue;
    yield batch.join("");
    batch = [];
    size = 0;
  }
  yield batch.join("");
}
