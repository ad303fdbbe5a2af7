import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { test } from "node:test";
import { groupFiles } from "./group-files.ts";

test("files of one top folder share a process, at most twenty; one that starts processes runs alone", () => {
  const pure = Array.from({ length: 21 }, () => "lib/hostmap/pack.test.ts");
  const others = ["lib/kube/backoff.test.ts", "cli/ask.test.ts"];
  const { entries, remove } = groupFiles(["test/run-files.test.ts", ...pure, ...others]);
  const filesOf = (entry: string) => readFileSync(entry, "utf8").match(/"file:[^"]+"/g)?.length;
  try {
    const [alone, ...groups] = entries;
    assert.equal(alone, "test/run-files.test.ts");
    assert.deepEqual(groups.map(filesOf), [20, 2, 1]);
    assert.match(basename(groups[2] ?? ""), /^1-files-from-cli-ask\.test\.ts\.mjs$/);
  } finally {
    remove();
  }
});
