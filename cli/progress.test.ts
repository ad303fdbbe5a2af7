import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createProgress } from "./progress.ts";

/** A screen, with a clock that the test advances. */
function start(t: TestContext, terminal: { columns: number } | undefined) {
  t.mock.timers.enable({ apis: ["setInterval"] });
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const written: string[] = [];
  const write = (text: string) => written.push(text) > 0;
  const screen = { write, isTTY: terminal !== undefined, columns: terminal?.columns ?? 0 };
  const pass = (ms: number) => {
    for (let step = 0; step < ms; step += 250) {
      now += 250;
      t.mock.timers.tick(250);
    }
    return written.splice(0);
  };
  return { progress: createProgress(screen as Parameters<typeof createProgress>[0]), pass, written };
}

test("work that ends within 2 s shows nothing", async (t) => {
  const { progress, pass, written } = start(t, { columns: 80 });
  assert.equal(await progress.during("reading", async () => pass(1_750).length), 0);
  assert.deepEqual([...written, ...pass(10_000)], []);
});

test("a terminal shows one line, updated every second, and erases it at the end and before other output", async (t) => {
  const { progress, pass, written } = start(t, { columns: 80 });
  let missing = "0 of 2 available";
  await progress.during(
    () => `waiting for web: ${missing}`,
    async () => {
      assert.deepEqual(pass(2_000), ["waiting for web: 0 of 2 available (2 s)"]);
      missing = "1 of 2 available";
      assert.deepEqual(pass(1_000), ["\r\u001b[K", "waiting for web: 1 of 2 available (3 s)"]);
      progress.clear();
      assert.deepEqual(written.splice(0), ["\r\u001b[K"]);
      progress.clear();
      assert.deepEqual(pass(1_000), ["waiting for web: 1 of 2 available (4 s)"]);
    },
  );
  assert.deepEqual(written, ["\r\u001b[K"]);
});

test("a line never wraps, because it could not be erased, and cannot control the terminal", async (t) => {
  const { progress, pass } = start(t, { columns: 20 });
  await progress.during("\u001b[2Jwaiting for a long name", async () => {
    assert.deepEqual(pass(2_000), [String.raw`\u001b[2Jwait (2 s)`]);
  });
});

test("without a terminal, a line follows after 2 s, and then every 10 s", async (t) => {
  const { progress, pass, written } = start(t, undefined);
  await progress.during("waiting", async () => {
    assert.deepEqual(pass(2_000), ["waiting (2 s)\n"]);
    assert.deepEqual(pass(9_500), []);
    assert.deepEqual(pass(500), ["waiting (12 s)\n"]);
    assert.deepEqual(pass(10_000), ["waiting (22 s)\n"]);
  });
  assert.deepEqual(written, []);
});

test("a failure also ends the progress", async (t) => {
  const { progress, pass } = start(t, { columns: 80 });
  await assert.rejects(
    progress.during("waiting", async () => {
      pass(2_000);
      throw new Error("x");
    }),
    { message: "x" },
  );
  assert.deepEqual(pass(5_000), ["\r\u001b[K"]);
});
