import { packTar } from "modern-tar";

/** A file, folder or link in an archive. */
export interface TarEntry {
  /** Relative path without `./` and without a slash at the end: `usr/lib/os-release`. */
  readonly path: string;
  readonly content: Buffer | { readonly link: string } | "folder";
  /** Permissions, such as 0o644. */
  readonly mode: number;
}

/**
 * Makes a tar archive. Entries are sorted by path, and missing folders are added. All belong to root and have the
 * same time, so that the same entries give the same bytes on any machine.
 */
export async function tarOf(entries: readonly TarEntry[], epochSeconds: number): Promise<Buffer> {
  const mtime = new Date(epochSeconds * 1000);
  const packed = await packTar(
    withFolders(entries).map(({ path, content, mode }) => {
      const owner = { uid: 0, gid: 0, mtime, mode };
      if (content === "folder") return { header: { ...owner, name: `${path}/`, type: "directory", size: 0 } };
      if (!Buffer.isBuffer(content)) {
        return { header: { ...owner, name: path, type: "symlink", linkname: content.link, size: 0 } };
      }
      return { header: { ...owner, name: path, type: "file", size: content.length }, body: content };
    }),
  );
  return Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
}

function withFolders(entries: readonly TarEntry[]): TarEntry[] {
  const all = new Map<string, TarEntry>();
  for (const entry of entries) {
    for (let slash = entry.path.indexOf("/"); slash !== -1; slash = entry.path.indexOf("/", slash + 1)) {
      const path = entry.path.slice(0, slash);
      if (!all.has(path)) all.set(path, { path, content: "folder", mode: 0o755 });
    }
    all.set(entry.path, entry);
  }
  // Sorts by bytes: a folder comes before its content, whatever the machine's language.
  return [...all.values()].sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
}
