import { rename, rm, writeFile } from "node:fs/promises";

/** Characters of one write. A large file is never in memory as a whole. */
const BATCH = 64 * 1024;

/**
 * Replaces a file as a whole: CoreDNS reads the old one or the new one. It is not synced to the disk: after a crash
 * of the node the sidecar writes it again before CoreDNS starts.
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

/** Deletes what an unfinished write of a file has left: on a full volume, even a small file would have no room. */
export async function removePartial(path: string): Promise<void> {
  // What cannot be deleted is no file of ours; the next write reports it.
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
