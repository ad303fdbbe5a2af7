import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { shortHash } from "#hostmap/hash.ts";
import { renderHosts } from "#hostmap/hosts-text.ts";
import { SnapshotAssembler } from "#lib/documents/map-builder.ts";
import { INDEX_NAME, renderIndex, SHARD_NAMES } from "#lib/documents/map-format.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { dnsMapForm } from "./dns-map.ts";
import { dnsMapOf } from "./fakes/dns-map.ts";
import { wildcardsOf } from "./wildcard-zone.ts";
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
  assert.deepEqual([...wildcardsOf(map.parts)], [["c.test", [RELAY]]]);
});

test("a map has the lines of all published shards; an unchanged shard is not read again", () => {
  const texts = [...ENTRIES].map(([name, addresses], at) => renderHosts([{ name, addresses, order: at + 1 }]));
  const changed = renderHosts([{ name: "d.test", addresses: [RELAY] }]);
  const builder = new SnapshotAssembler(dnsMapForm(() => undefined));
  const publish = (shards: readonly string[]) => {
    const named = shards.map((text, at) => ({ name: SHARD_NAMES[at] ?? "", revision: shortHash(text) }));
    builder.put(INDEX_NAME, renderIndex({ revision: `r${shards.at(-1)?.length}`, shards: named }));
    const map = builder.build();
    return isMap(map) ? map : assert.fail(map.text);
  };
  for (const [at, text] of texts.entries()) builder.put(SHARD_NAMES[at] ?? "", text);
  const before = publish(texts);
  assert.deepEqual(
    before.parts.map(({ hosts }) => hosts),
    [`${RELAY} a.test\n`, `${RELAY} *.b.test\n`, ""],
  );
  builder.put("switchback-hosts-2", changed);
  const after = publish([...texts.slice(0, 2), changed]);
  assert.equal(after.parts[2]?.hosts, `${RELAY} d.test\n`);
  for (const at of [0, 1]) assert.equal(after.parts[at], before.parts[at]);
  builder.put("switchback-hosts-0", undefined);
  assert.equal("code" in builder.build(), true, "part of a map is never used");
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
