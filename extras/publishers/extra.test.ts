import assert from "node:assert/strict";
import { test } from "node:test";
import { componentFlags, connectFlags, helpOf } from "#test/fakes/cli.ts";

test("the command's help lists its flags", async () => {
  assert.deepEqual(await helpOf("publish"), {
    usage: "publish [options] <publisher>",
    flags: [...componentFlags, "--remove", "--yes", ...connectFlags, "-h, --help"],
  });
});
