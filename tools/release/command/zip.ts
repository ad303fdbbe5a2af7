import { crc32, deflateRawSync } from "node:zlib";

/** A file of a zip archive. */
interface ZipFile {
  /** With slashes. */
  readonly path: string;
  readonly content: Buffer;
  /** Permissions, such as 0o644. */
  readonly mode: number;
}

const LEVEL = 9;
const LOCAL_HEADER = 0x04034b50;
const CENTRAL_HEADER = 0x02014b50;
const END = 0x06054b50;
/** 2.0: deflate. Made on Unix (3), so that the mode below is read. */
const ZIP_VERSION = 20;
const MADE_BY = (3 << 8) | ZIP_VERSION;
const UTF8_NAMES = 1 << 11;
const DEFLATE = 8;
const REGULAR_FILE = 0o100000;

/**
 * A zip archive (PKWARE's APPNOTE 6.3), for Windows, which opens no tar by a click. Its bytes follow from the files
 * and the time alone.
 */
export function zip(files: readonly ZipFile[], epochSeconds: number): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { path, content, mode } of files) {
    const name = Buffer.from(path);
    const packed = deflateRawSync(content, { level: LEVEL });
    const about = zipEntry({ name, content, packed, epochSeconds });
    const local = Buffer.concat([uint32(LOCAL_HEADER), about, name]);
    const central = [uint32(CENTRAL_HEADER), uint16(MADE_BY), about];
    // Comment, disk, internal attributes; external attributes; where the file starts.
    directory.push(
      Buffer.concat([...central, Buffer.alloc(6), uint32((REGULAR_FILE | mode) * 0x10000), uint32(offset), name]),
    );
    parts.push(local, packed);
    offset += local.length + packed.length;
  }
  const listing = Buffer.concat(directory);
  const count = uint16(files.length);
  const end = [uint32(END), Buffer.alloc(4), count, count, uint32(listing.length), uint32(offset), Buffer.alloc(2)];
  return Buffer.concat([...parts, listing, ...end]);
}

interface ZipEntry {
  readonly name: Buffer;
  readonly content: Buffer;
  readonly packed: Buffer;
  readonly epochSeconds: number;
}

/** What the local and the central header have in common. */
function zipEntry({ name, content, packed, epochSeconds }: ZipEntry): Buffer {
  const time = new Date(epochSeconds * 1000);
  const clock = (time.getUTCHours() << 11) | (time.getUTCMinutes() << 5) | (time.getUTCSeconds() >> 1);
  // DOS counts from 1980.
  const date = (Math.max(0, time.getUTCFullYear() - 1980) << 9) | ((time.getUTCMonth() + 1) << 5) | time.getUTCDate();
  const words = [ZIP_VERSION, UTF8_NAMES, DEFLATE, clock, date].map(uint16);
  const sizes = [crc32(content), packed.length, content.length].map(uint32);
  return Buffer.concat([...words, ...sizes, uint16(name.length), uint16(0)]);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
