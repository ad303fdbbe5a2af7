import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const BIN = fileURLToPath(new URL("./bin.js", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "switchback-"));
after(() => rmSync(folder, { recursive: true }));

function help(cache: string): string {
  const env = { XDG_CACHE_HOME: cache };
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, "--help"], { encoding: "utf8", env });
  assert.deepEqual([status, stderr], [0, ""]);
  return stdout;
}

test("keeps compiled code for the next start, in the user's own cache directory", () => {
  const first = help(folder);
  assert.match(first, /^Usage: switchback/);
  const code = join(folder, "switchback", "code");
  const kept = () => readdirSync(code, { recursive: true, encoding: "utf8" }).sort();
  const files = kept();
  assert.ok(files.length > 5, `${files}`);
  assert.equal(help(folder), first);
  assert.deepEqual(kept(), files);
});

test("works without the cache if its directory is not writable", () => {
  const file = join(folder, "file");
  writeFileSync(file, "");
  assert.match(help(file), /^Usage: switchback/);
});
