import assert from "node:assert/strict";
import { test } from "node:test";
import { componentFlags, helpOf } from "#test/fakes/cli.ts";

test("the command's help lists its flags", async () => {
  assert.deepEqual(await helpOf("agent"), {
    usage: "agent [options]",
    flags: [...componentFlags, "-h, --help"],
  });
});
