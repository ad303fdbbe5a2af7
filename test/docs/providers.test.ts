import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { PROVIDERS } from "#doctor/providers.ts";

// docs/providers.md has every provider that the doctor has a cure for, and every annotation that sets the header.

const ROOT = join(import.meta.dirname, "..", "..");
const PAGE = readFileSync(join(ROOT, "docs", "providers.md"), "utf8");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

test("every provider that the doctor knows has a row or a section", () => {
  const titles = PROVIDERS.map(({ title }) => title);
  // The page may use a shorter name: `Oracle Cloud` is Oracle there, so the first word is enough.
  const shown = PAGE.split("\n").filter((line) => /^\| |^## /.test(line));
  assert.deepEqual(
    titles.filter((title) => !shown.some((line) => line.includes(title.split(" ")[0] ?? title))),
    [],
  );
});

test("every annotation that says which header is sent is on the page", () => {
  const [, table = ""] = read("controller/targets/proxy-protocol-annotations.ts").split("const PROVIDERS");
  const written = [...table.matchAll(/^\s*\[*(?:`\$\{\w+\}([^`]+)`|"([^"]+)"),/gm)];
  const keys = written.map(([, own, whole]) => (own ?? whole ?? "").replace(/\$\{PORT\}$/, "443"));
  assert.ok(keys.length >= 19, keys.join());
  // The page abbreviates a key that begins like the one before it.
  const ends = [...PAGE.matchAll(/\.\.\.(-[\w-]+)/g)].map(([, end = ""]) => end);
  assert.deepEqual(
    keys.filter((key) => !PAGE.includes(key) && !ends.some((end) => key.endsWith(end))),
    ["linode-loadbalancer-proxy-protocol"],
    "and the former name of another",
  );
});
