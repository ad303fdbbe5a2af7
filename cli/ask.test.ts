import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { atTerminal } from "#test/fakes/cli.ts";
import { agree, ask } from "./ask.ts";

for (const [input, agreed] of [
  ["y\n", true],
  ["yes\n", true],
  [" Yes \n", true],
  ["n\n", false],
  ["no\n", false],
  ["\n", false],
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

test("stops reading after the answer, so the process can exit", async (t) => {
  atTerminal(t, "");
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  Object.defineProperty(process, "stdin", { value: stdin, configurable: true });
  stdin.write("y\n");
  assert.equal(await ask("go on? "), true);
  assert.ok(stdin.isPaused());
});

for (const stream of ["stdin", "stderr"] as const) {
  test(`does not ask, even with piped input, if ${stream} is not a terminal`, async (t) => {
    const shows = atTerminal(t, "y\n");
    Object.defineProperty(process[stream], "isTTY", { value: undefined, configurable: true });
    await assert.rejects(agree("go on? "), {
      code: "declined",
      message: "there is no terminal to ask on: nothing was changed. --yes answers the question in advance",
    });
    assert.ok(!shows("go on? "));
  });
}
