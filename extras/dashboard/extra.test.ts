import assert from "node:assert/strict";
import { test } from "node:test";
import { clusterFlags, helpOf } from "#test/fakes/cli.ts";

test("the command's help lists its flags", async () => {
  assert.deepEqual(await helpOf("dashboard"), {
    usage: "dashboard [options]",
    flags: [...clusterFlags, "--port <n>", "--no-open", "-h, --help"],
  });
});
