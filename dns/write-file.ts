import { rename, writeFile } from "node:fs/promises";

/**
 * Replaces a file as a whole: CoreDNS reads the old one or the new one. It is not synced to the disk: after a crash of the node the
 * sidecar writes it again before CoreDNS starts.
 */
export async function replaceFile(path: string, text: string): Promise<void> {
  const partial = `${path}.new`;
  await writeFile(partial, text);
  await rename(partial, path);
}
