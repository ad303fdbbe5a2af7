import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32, inflateRawSync } from "node:zlib";
import { zip } from "./zip.ts";

const EPOCH = Date.UTC(2026, 10, 23, 12, 34, 56) / 1000;
const FILES = [
  { path: "bin/program", content: Buffer.from("#!/bin/sh\necho 1\n"), mode: 0o755 },
  // Content of exactly one block, and content that compresses.
  { path: "LICENSE", content: Buffer.alloc(512, "licence "), mode: 0o644 },
  { path: "empty", content: Buffer.alloc(0), mode: 0o644 },
];

const CENTRAL_HEADER = 46;
const DEFLATE = 8;

/** Name, mode, time and content of each file. Reads the layout of PKWARE's APPNOTE 6.3. */
function filesIn(archive: Buffer) {
  const end = archive.lastIndexOf("PK\u0005\u0006");
  const found: { name: string; mode: string; time: string; content: Buffer }[] = [];
  for (let at = archive.readUInt32LE(end + 16); at < end; ) {
    const [method, clock, date] = [10, 12, 14].map((offset) => archive.readUInt16LE(at + offset)) as [
      number,
      number,
      number,
    ];
    const [checksum, packed] = [16, 20].map((offset) => archive.readUInt32LE(at + offset)) as [number, number];
    const [nameLength, extra, comment] = [28, 30, 32].map((offset) => archive.readUInt16LE(at + offset)) as [
      number,
      number,
      number,
    ];
    assert.equal(archive[at + 5], 3, "made on Unix");
    const local = archive.readUInt32LE(at + 42);
    const start = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
    const bytes = archive.subarray(start, start + packed);
    const content = method === DEFLATE ? inflateRawSync(bytes) : bytes;
    assert.equal(crc32(content), checksum);
    found.push({
      name: archive.toString("utf8", at + CENTRAL_HEADER, at + CENTRAL_HEADER + nameLength),
      mode: (archive.readUInt32LE(at + 38) >>> 16).toString(8),
      time: timeOf(date, clock),
      content,
    });
    at += CENTRAL_HEADER + nameLength + extra + comment;
  }
  return found;
}

/** A DOS time: it starts in 1980 and has steps of two seconds. */
function timeOf(date: number, clock: number): string {
  const day = [(date >> 9) + 1980, (date >> 5) & 15, date & 31].join("-");
  return `${day} ${[clock >> 11, (clock >> 5) & 63, (clock & 31) * 2].join(":")}`;
}

test("an archive has the files, their modes and the given time, in UTC whatever the machine's time zone", () => {
  const time = "2026-11-23 12:34:56";
  const before = process.env.TZ;
  try {
    for (const zone of ["UTC", "Asia/Kathmandu", "America/St_Johns"]) {
      process.env.TZ = zone;
      assert.deepEqual(filesIn(zip(FILES, EPOCH)), [
        { name: "bin/program", mode: "100755", time, content: FILES[0]?.content },
        { name: "LICENSE", mode: "100644", time, content: FILES[1]?.content },
        { name: "empty", mode: "100644", time, content: FILES[2]?.content },
      ]);
    }
  } finally {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  }
});
