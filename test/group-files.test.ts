import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { test } from "node:test";
import { groupFiles } from "./group-files.ts";

test("files of one folder share a process, at most twenty; one that starts processes has its own", () => {
  const pure = Array.from({ length: 21 }, () => "lib/hostmap/pack.test.ts");
  const { entries, remove } = groupFiles(["test/run-files.test.ts", ...pure, "lib/kube/backoff.test.ts"]);
  const filesOf = (entry: string) => readFileSync(entry, "utf8").match(/"file:[^"]+"/g)?.length;
  try {
    const [alone, ...groups] = entries;
    assert.equal(alone, "test/run-files.test.ts");
    assert.deepEqual(groups.map(filesOf), [20, 1, 1]);
    assert.match(basename(groups[2] ?? ""), /^lib-kube-1-files-lib-kube-backoff\.test\.ts\.mjs$/);
  } finally {
    remove();
  }
});
