import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { bundleProduct } from "#manifests/bundle.ts";

test("the agent finds all of its modules in the image's program", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "switchback-bundle-"));
  t.after(() => rmSync(folder, { recursive: true }));
  await bundleProduct(folder);
  // No cluster, even if the person who runs the tests has one configured.
  const env = { PATH: process.env.PATH, HOME: folder };
  const run = promisify(execFile)(process.execPath, [join(folder, "cli", "main.js"), "agent"], { cwd: folder, env });
  await assert.rejects(run, ({ stderr }: { readonly stderr: string }) => {
    assert.match(stderr, /no cluster|not in a pod|required|missing/i);
    assert.doesNotMatch(stderr, /Cannot find (module|package)|node:internal/);
    return true;
  });
});
