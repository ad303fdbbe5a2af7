import assert from "node:assert/strict";
import { test } from "node:test";
import { captured } from "#test/fakes/cli.ts";
import { probe } from "./probe.ts";

test("prints the result as one line of JSON", async () => {
  const { context, written } = captured();
  await probe(JSON.stringify({ dials: [], names: [] }), context);
  assert.deepEqual([written.stdout, written.stderr], ['{"dials":[],"lookups":[]}\n', ""]);
});

for (const plan of ["", "{", "null", "{}", '{"dials":[],"names":"a"}', '{"dials":[{}],"names":[]}']) {
  test(`${JSON.stringify(plan)} is not a plan: nothing is probed or printed`, async () => {
    const { context, written } = captured();
    await assert.rejects(probe(plan, context), {
      code: "input-invalid",
      message: "the plan is not from `switchback doctor --probe`",
    });
    assert.equal(written.stdout, "");
  });
}
