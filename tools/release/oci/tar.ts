/** What stands at one path of an archive. */
export interface TarEntry {
  /** Relative, without `./` and without a slash at its end: `usr/lib/os-release`. */
  readonly path: string;
  readonly content: Buffer | { readonly link: string } | "folder";
  /** Permissions, such as 0o644. */
  readonly mode: number;
}

const BLOCK = 512;
/** Two empty blocks end an archive; it is filled up to 20 blocks, as GNU tar does and some readers expect. */
const RECORD = 20 * BLOCK;

/**
 * A ustar archive. Entries are sorted by path, folders are added for those that none is given for, and all belong
 * to root and have one time, so that the same entries give the same bytes on any machine. Throws for a path that
 * ustar cannot hold.
 */
export function tarOf(entries: readonly TarEntry[], epochSeconds: number): Buffer {
  const parts: Buffer[] = [];
  for (const entry of withFolders(entries)) {
    const data = Buffer.isBuffer(entry.content) ? entry.content : Buffer.alloc(0);
    parts.push(header(entry, data.length, epochSeconds), data, Buffer.alloc(-data.length & (BLOCK - 1)));
  }
  const size = parts.reduce((sum, part) => sum + part.length, 0) + 2 * BLOCK;
  return Buffer.concat(parts, Math.ceil(size / RECORD) * RECORD);
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
  // By bytes: a folder comes before what is in it, whatever the machine's language.
  return [...all.values()].sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
}

function header({ path, content, mode }: TarEntry, size: number, epochSeconds: number): Buffer {
  const isLink = typeof content === "object" && "link" in content;
  const [prefix, name] = split(content === "folder" ? `${path}/` : path);
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number) =>
    block.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at, "ascii");
  block.write(name, 0, 100, "utf8");
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(epochSeconds, 136, 12);
  block.write(content === "folder" ? "5" : isLink ? "2" : "0", 156, "ascii");
  if (isLink) block.write(checked(content.link, 100), 157, "utf8");
  block.write("ustar\u000000", 257, "ascii");
  octal(0, 329, 8);
  octal(0, 337, 8);
  block.write(prefix, 345, 155, "utf8");
  // The sum is taken with spaces in its own place.
  block.fill(" ", 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "ascii");
  return block;
}

/** A path of more than 100 bytes is split at a slash into a prefix and a name. */
function split(path: string): readonly [string, string] {
  if (Buffer.byteLength(path) <= 100) return ["", path];
  for (let slash = path.indexOf("/"); slash !== -1; slash = path.indexOf("/", slash + 1)) {
    const name = path.slice(slash + 1);
    if (Buffer.byteLength(name) <= 100 && name !== "") return [checked(path.slice(0, slash), 155), name];
  }
  throw new Error(`${path}: too long for a tar archive`);
}

function checked(text: string, bytes: number): string {
  if (Buffer.byteLength(text) > bytes) throw new Error(`${text}: too long for a tar archive`);
  return text;
}
