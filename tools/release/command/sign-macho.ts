import { createHash } from "node:crypto";

// An ad hoc signature: hashes of the pages, without a signer. macOS on arm64 ends a program without a signature. The
// executables that Node prepares have lost Node's own one. Formats: Apple's mach-o/loader.h and xnu's
// osfmk/kern/cs_blobs.h. The content is the same as from Go's linker (cmd/internal/codesign).

const MH_MAGIC_64 = 0xfeedfacf;
const HEADER_SIZE = 32;
const LC_SEGMENT_64 = 0x19;
const LC_CODE_SIGNATURE = 0x1d;
const LINKEDIT_DATA_COMMAND_SIZE = 16;

const CSMAGIC_EMBEDDED_SIGNATURE = 0xfade0cc0;
const CSMAGIC_CODEDIRECTORY = 0xfade0c02;
const SUPER_BLOB_SIZE = 12;
const BLOB_INDEX_SIZE = 8;
const CODE_DIRECTORY_SIZE = 88;
/** The first version with fields for the executable segment. */
const CODE_DIRECTORY_VERSION = 0x20400;
const CS_ADHOC = 2;
const CS_HASHTYPE_SHA256 = 2;
const CS_EXECSEG_MAIN_BINARY = 1;
const HASH_SIZE = 32;
const PAGE_BITS = 12;
const PAGE_SIZE = 1 << PAGE_BITS;
/** Alignment of segments in the kernel on arm64; more than enough elsewhere. */
const SEGMENT_ALIGNMENT = 0x4000;

interface Segment {
  /** Offset of its load command in the file. */
  readonly at: number;
  readonly fileOffset: number;
  readonly fileSize: number;
}

/**
 * Returns a 64-bit Mach-O program with an ad hoc signature. `identifier` is the name in the signature. Throws if it
 * is not such a program, if it already has a signature, or if it has no room for another load command.
 */
export function signAdHoc(program: Buffer, identifier: string): Buffer {
  const { text, linkEdit } = addressable(program);
  const limit = align(program.length, 16);
  const identifierBytes = Buffer.from(`${identifier}\0`);
  const pages = Math.ceil(limit / PAGE_SIZE);
  const hashesAt = CODE_DIRECTORY_SIZE + identifierBytes.length;
  const size = SUPER_BLOB_SIZE + BLOB_INDEX_SIZE + hashesAt + pages * HASH_SIZE;

  const signed = Buffer.alloc(limit + size);
  program.copy(signed);
  addCommand(signed, limit, size);
  // The signature enlarges the segment at the end of the file.
  const linkEditSize = limit + size - linkEdit.fileOffset;
  signed.writeBigUInt64LE(BigInt(linkEditSize), linkEdit.at + 48);
  signed.writeBigUInt64LE(BigInt(align(linkEditSize, SEGMENT_ALIGNMENT)), linkEdit.at + 32);

  // Big-endian from here on.
  let at = limit;
  const put = (...words: number[]) => {
    for (const word of words) at = signed.writeUInt32BE(word, at);
  };
  put(CSMAGIC_EMBEDDED_SIGNATURE, size, 1, 0, SUPER_BLOB_SIZE + BLOB_INDEX_SIZE);
  put(CSMAGIC_CODEDIRECTORY, size - SUPER_BLOB_SIZE - BLOB_INDEX_SIZE, CODE_DIRECTORY_VERSION, CS_ADHOC);
  put(hashesAt, CODE_DIRECTORY_SIZE, 0, pages, limit);
  put((HASH_SIZE << 24) | (CS_HASHTYPE_SHA256 << 16) | PAGE_BITS);
  // Unused fields: second spare, scatter, team, third spare, and the 64-bit limit. A 0 in the latter selects the
  // 32-bit limit above.
  put(0, 0, 0, 0, 0, 0);
  put(0, text.fileOffset, 0, text.fileSize, 0, CS_EXECSEG_MAIN_BINARY);
  at += identifierBytes.copy(signed, at);
  for (let page = 0; page < limit; page += PAGE_SIZE) {
    const hash = createHash("sha256").update(signed.subarray(page, Math.min(page + PAGE_SIZE, limit)));
    at += hash.digest().copy(signed, at);
  }
  return signed;
}

/** Finds the two segments that a signature needs. */
function addressable(program: Buffer): { text: Segment; linkEdit: Segment } {
  if (program.readUInt32LE(0) !== MH_MAGIC_64) throw new Error("this is no 64-bit Mach-O program");
  const segments = new Map<string, Segment>();
  let at = HEADER_SIZE;
  for (let count = program.readUInt32LE(16); count > 0; count--) {
    const command = program.readUInt32LE(at);
    if (command === LC_CODE_SIGNATURE) throw new Error("it has a signature already");
    if (command === LC_SEGMENT_64) segments.set(...segmentAt(program, at));
    at += program.readUInt32LE(at + 4);
  }
  const [text, linkEdit] = [segments.get("__TEXT"), segments.get("__LINKEDIT")];
  if (text === undefined || linkEdit === undefined) throw new Error("it has no __TEXT or no __LINKEDIT segment");
  if (linkEdit.fileOffset + linkEdit.fileSize !== program.length) throw new Error("__LINKEDIT is not at its end");
  return { text, linkEdit };
}

function segmentAt(program: Buffer, at: number): [string, Segment] {
  const name = program.toString("latin1", at + 8, at + 24).replaceAll("\0", "");
  const [fileOffset, fileSize] = [program.readBigUInt64LE(at + 40), program.readBigUInt64LE(at + 48)];
  return [name, { at, fileOffset: Number(fileOffset), fileSize: Number(fileSize) }];
}

/** Adds the load command for the signature after the last load command. */
function addCommand(program: Buffer, dataOffset: number, dataSize: number): void {
  const [count, size] = [program.readUInt32LE(16), program.readUInt32LE(20)];
  const end = HEADER_SIZE + size;
  const room = program.subarray(end, end + LINKEDIT_DATA_COMMAND_SIZE);
  // The bytes between the commands and the first section are zeros.
  if (room.some((byte) => byte !== 0)) throw new Error("it has no room for another load command");
  for (const [index, word] of [LC_CODE_SIGNATURE, LINKEDIT_DATA_COMMAND_SIZE, dataOffset, dataSize].entries())
    room.writeUInt32LE(word, index * 4);
  program.writeUInt32LE(count + 1, 16);
  program.writeUInt32LE(size + LINKEDIT_DATA_COMMAND_SIZE, 20);
}

function align(value: number, to: number): number {
  return Math.ceil(value / to) * to;
}
