import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { atTerminal } from "../test/fakes/cli.ts";
import { ask } from "./ask.ts";

for (const [input, agreed] of [
  ["y\n", true],
  ["Y\n", true],
  ["yes\n", true],
  [" Yes \n", true],
  ["n\n", false],
  ["no\n", false],
  ["\n", false],
  ["ye\n", false],
  ["yess\n", false],
  ["oh yes\n", false],
  ["\ny\n", false],
  ["", false],
] as const) {
  test(`${JSON.stringify(input)} is ${agreed ? "a yes" : "a no"}`, async (t) => {
    const question = `${JSON.stringify(input)}? [y/N] `;
    const shows = atTerminal(t, input);
    assert.equal(await ask(question), agreed);
    assert.ok(shows(question));
  });
}

test("stops reading after the answer, so that the process can exit", async (t) => {
  atTerminal(t, "");
  const stdin = new PassThrough();
  Object.defineProperty(process, "stdin", { value: stdin, configurable: true });
  stdin.write("y\n");
  assert.equal(await ask("go on? "), true);
  assert.ok(stdin.isPaused());
});
