import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { zip } from "./zip.ts";

const EPOCH = Date.UTC(2026, 10, 23, 12, 34, 56) / 1000;
const FILES = [
  { path: "bin/program", content: Buffer.from("#!/bin/sh\necho 1\n"), mode: 0o755 },
  // A whole block, and text that compresses.
  { path: "LICENSE", content: Buffer.alloc(512, "licence "), mode: 0o644 },
  { path: "empty", content: Buffer.alloc(0), mode: 0o644 },
];

const folder = mkdtempSync(join(tmpdir(), "switchback-archive-"));
after(() => rmSync(folder, { recursive: true }));

function extracted(archive: Buffer, command: string, ...args: string[]): string {
  const file = join(folder, "archive");
  writeFileSync(file, archive);
  return execFileSync(command, [...args, file], { encoding: "utf8", env: { ...process.env, TZ: "UTC" } });
}

/** By Python's own reader: name, mode, time and content of each file. */
const READ_ZIP = `
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
for file in archive.infolist():
  print(file.filename, oct(file.external_attr >> 16), file.date_time, len(archive.read(file)))
`;

describe("zip", () => {
  it("holds the files, their modes and the given time", () => {
    assert.equal(
      extracted(zip(FILES, EPOCH), "python3", "-c", READ_ZIP),
      `bin/program 0o100755 (2026, 11, 23, 12, 34, 56) 17
LICENSE 0o100644 (2026, 11, 23, 12, 34, 56) 512
empty 0o100644 (2026, 11, 23, 12, 34, 56) 0
`,
    );
  });
});
