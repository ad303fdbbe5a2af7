import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { dnsMapOf } from "./fakes/dns-map.ts";
import { replaceFile } from "./write-file.ts";

const RELAY = "198.51.100.9";
const ENTRIES = new Map([
  ["a.test", [RELAY]],
  ["*.b.test", [RELAY]],
  ["**.c.test", [RELAY]],
]);

test("names are counted without wildcards, and only wildcards at any depth are kept apart", () => {
  const map = dnsMapOf("r", ENTRIES);
  assert.deepEqual([map.revision, map.size], ["r", 1]);
  assert.deepEqual([...map.wildcards], [["c.test", [RELAY]]]);
  assert.equal(map.hosts, `${RELAY} a.test\n${RELAY} *.b.test\n`);
});

test("a file is written completely, even in many batches", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "switchback-dns-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "hosts");
  const texts = Array.from({ length: 300 }, (_, at) => `${at} `.repeat(200));
  await replaceFile(path, texts);
  assert.equal(readFileSync(path, "utf8"), texts.join(""));
  await replaceFile(path, []);
  assert.equal(readFileSync(path, "utf8"), "");
});

test("the unfinished file of a failed write is deleted, so that it leaves room for the next one", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "switchback-dns-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "hosts");
  function* full() {
    yield "x".repeat(200_000);
    throw new Error("ENOSPC");
  }
  await assert.rejects(replaceFile(path, full()), /ENOSPC/);
  assert.deepEqual(readdirSync(folder), []);
});
