import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { signAdHoc } from "./sign-macho.ts";
import { removeSignature } from "./sign-pe.ts";

// A manual comparison with the output of Go's linker for darwin/arm64 found the same bytes, except the flag "signed
// by the linker" and the size of __LINKEDIT in memory, which is rounded up here. This test reads each field by its
// offset in Apple's headers.

const COMMANDS = 32;
const SEGMENT_SIZE = 72;
const LINK_EDIT_AT = COMMANDS + SEGMENT_SIZE;
const TEXT_SIZE = 8192;

function segment(name: string, offset: number, size: number): Buffer {
  const command = Buffer.alloc(SEGMENT_SIZE);
  command.writeUInt32LE(0x19, 0);
  command.writeUInt32LE(SEGMENT_SIZE, 4);
  command.write(name, 8);
  command.writeBigUInt64LE(BigInt(offset), 40);
  command.writeBigUInt64LE(BigInt(size), 48);
  return command;
}

/** A program with two segments: two pages of text, and link information with an unaligned length. */
function machO(linkEditSize = 5001): Buffer {
  const program = Buffer.alloc(TEXT_SIZE + linkEditSize, 7);
  program.fill(0, 0, 4096);
  program.writeUInt32LE(0xfeedfacf, 0);
  program.writeUInt32LE(2, 16);
  program.writeUInt32LE(2 * SEGMENT_SIZE, 20);
  segment("__TEXT", 0, TEXT_SIZE).copy(program, COMMANDS);
  segment("__LINKEDIT", TEXT_SIZE, linkEditSize).copy(program, LINK_EDIT_AT);
  return program;
}

describe("an ad hoc signature", () => {
  const program = machO();
  const signed = signAdHoc(program, "name");
  const commandAt = LINK_EDIT_AT + SEGMENT_SIZE;
  const at = signed.readUInt32LE(commandAt + 8);
  const directory = signed.subarray(at + 20);

  it("has a load command and is at the end of the file and of the last segment", () => {
    assert.deepEqual([signed.readUInt32LE(16), signed.readUInt32LE(20)], [3, 2 * SEGMENT_SIZE + 16]);
    assert.deepEqual([signed.readUInt32LE(commandAt), signed.readUInt32LE(commandAt + 4)], [0x1d, 16]);
    assert.equal(at, 13_200);
    assert.equal(at + signed.readUInt32LE(commandAt + 12), signed.length);
    const [memory, file] = [32, 48].map((field) => Number(signed.readBigUInt64LE(LINK_EDIT_AT + field)));
    assert.equal(TEXT_SIZE + (file ?? 0), signed.length);
    assert.equal(memory, 16_384);
  });

  it("has the flag for ad hoc, the name, and the range of the program's code", () => {
    assert.deepEqual([signed.readUInt32BE(at), signed.readUInt32BE(at + 4)], [0xfade0cc0, signed.length - at]);
    const words = Array.from({ length: 9 }, (_, index) => directory.readUInt32BE(index * 4));
    assert.deepEqual(words, [0xfade0c02, signed.length - at - 20, 0x20400, 2, 93, 88, 0, 4, at]);
    // 32 bytes per hash, SHA-256, pages of 2^12 bytes.
    assert.deepEqual([...directory.subarray(36, 40)], [32, 2, 0, 12]);
    assert.deepEqual(
      [64, 72, 80].map((field) => Number(directory.readBigUInt64BE(field))),
      [0, TEXT_SIZE, 1],
    );
    assert.equal(directory.toString("latin1", 88, 93), "name\0");
  });

  it("has the current hash of each page; the last page is shorter", () => {
    const pages = [0, 4096, 8192, 12_288].map((start) => signed.subarray(start, Math.min(start + 4096, at)));
    const hashes = pages.map((page) => createHash("sha256").update(page).digest());
    assert.ok(directory.subarray(93).equals(Buffer.concat(hashes)));
    assert.ok(signed.subarray(4096, program.length).equals(program.subarray(4096)));
  });

  it("is refused for a program that cannot get one", () => {
    assert.throws(() => signAdHoc(signed, "name"), /has a signature already/);
    assert.throws(() => signAdHoc(Buffer.alloc(64), "name"), /no 64-bit Mach-O/);
    assert.throws(() => signAdHoc(Buffer.concat([program, Buffer.alloc(1)]), "name"), /not at its end/);
    const full = machO();
    full[commandAt + 15] = 1;
    assert.throws(() => signAdHoc(full, "name"), /no room for another load command/);
    const other = machO();
    other.write("__OTHER\0\0\0", LINK_EDIT_AT + 8);
    assert.throws(() => signAdHoc(other, "name"), /no __TEXT or no __LINKEDIT/);
  });
});

describe("a signature of Windows", () => {
  const windows = () => {
    const program = Buffer.alloc(1024, 7);
    program.writeUInt32LE(128, 0x3c);
    program.write("PE\0\0", 128, "latin1");
    program.writeUInt16LE(0x20b, 128 + 24);
    return program;
  };

  it("is no longer referred to, and nothing else changes", () => {
    const program = windows();
    removeSignature(program);
    const expected = windows();
    expected.fill(0, 128 + 24 + 112 + 32, 128 + 24 + 112 + 40);
    assert.ok(program.equals(expected));
  });

  it("is searched only in 64-bit programs", () => {
    assert.throws(() => removeSignature(Buffer.alloc(512)), /no 64-bit Windows program/);
    const program = windows();
    program.writeUInt16LE(0x10b, 128 + 24);
    assert.throws(() => removeSignature(program), /no 64-bit Windows program/);
  });
});
