import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { describe, test } from "node:test";
import { createOutput, paint, usesColour } from "./output.ts";

/** A stream that keeps the written text. Each write fails with `error`, if given. */
function stream(error?: NodeJS.ErrnoException) {
  const written: string[] = [];
  const writable = new Writable({
    autoDestroy: false,
    write(chunk, _encoding, done) {
      if (error === undefined) written.push(String(chunk));
      done(error);
    },
  });
  return { writable, text: () => written.join("") };
}

const failure = (code: string) => Object.assign(new Error(`write ${code}`), { code });
const turn = () => new Promise(setImmediate);

describe("colour", () => {
  test("is written if it is enabled, else dropped", () => {
    for (const [colour, expected] of [
      [true, "a \u001b[31mbad\u001b[0m b\n"],
      [false, "a bad b\n"],
    ] as const) {
      const { writable, text } = stream();
      createOutput(writable, { colour }).write(`a ${paint("bad", "bad")} b\n`);
      assert.equal(text(), expected);
    }
  });

  test("is enabled only for terminals, and never if NO_COLOR is set", () => {
    assert.equal(usesColour({ isTTY: true }, {}), true);
    assert.equal(usesColour({ isTTY: true }, { NO_COLOR: "" }), true, "empty counts as not set");
    assert.equal(usesColour({ isTTY: true }, { NO_COLOR: "1" }), false);
    assert.equal(usesColour({ isTTY: true }, { TERM: "dumb" }), false);
    assert.equal(usesColour({}, {}), false);
  });

  test("is the only thing in a text that a terminal acts on", () => {
    const { writable, text } = stream();
    createOutput(writable, { colour: true }).write("\u001b[2J\u001b[31;5m\u001b[7mx\u009b31m");
    assert.equal(text(), String.raw`\u001b[2J\u001b[31;5m\u001b[7mx\u009b31m`);
    const line = stream();
    createOutput(line.writable, { colour: true }).line(paint("bad", "x"));
    assert.equal(line.text(), `${String.raw`\u001b[31mx\u001b[0m`}\n`);
  });
});

describe("a reader that closes the stream", () => {
  test("causes no error, and closes the output", async () => {
    const errors: Error[] = [];
    const { writable } = stream(failure("EPIPE"));
    const output = createOutput(writable, { onError: (error) => errors.push(error) });
    output.line("a");
    await turn();
    assert.deepEqual([output.closed.aborted, errors], [true, []]);
    output.line("b");
    output.write("c");
    await turn();
    assert.deepEqual(errors, []);
  });

  test("is different from a full disk, which is reported once", async () => {
    const errors: Error[] = [];
    const { writable } = stream(failure("ENOSPC"));
    const output = createOutput(writable, { onError: (error) => errors.push(error) });
    output.line("a");
    output.line("b");
    await turn();
    assert.deepEqual([errors.map(({ message }) => message), output.closed.aborted], [["write ENOSPC"], true]);
  });
});
