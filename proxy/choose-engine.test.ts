import assert from "node:assert/strict";
import { test } from "node:test";
import { describeError, hasCode } from "#lib/errors/errors.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { chooseEngine } from "./choose-engine.ts";
import type { MakeEngine } from "./engine.ts";
import { checkEngine } from "./engine-check.ts";
import { makePortableEngine } from "./portable/engine.ts";

const stand: MakeEngine = (options) => makePortableEngine(options);
const working = async (): Promise<MakeEngine> => stand;
const missing = async (): Promise<MakeEngine> => {
  throw new Error("no build for this machine");
};

test("portable selects the portable engine without loading the linux engine", async () => {
  const log = new LineLog();
  assert.equal(await chooseEngine({ engine: "portable", workers: 0 }, log, missing), makePortableEngine);
  assert.deepEqual(log.lines, []);
});

test("auto selects the linux engine if it works, with the configured number of workers", async () => {
  const asked: number[] = [];
  const linux = async (workers: number) => {
    asked.push(workers);
    return stand;
  };
  const log = new LineLog();
  assert.equal(await chooseEngine({ engine: "auto", workers: 3 }, log, linux), stand);
  assert.deepEqual(asked, [3]);
  assert.match(JSON.stringify(log.lines), /linux engine selected/);
});

test("auto falls back to portable, with one log line that states the reason", async () => {
  const log = new LineLog();
  assert.equal(await chooseEngine({ engine: "auto", workers: 0 }, log, missing), makePortableEngine);
  assert.equal(log.lines.length, 1);
  assert.match(JSON.stringify(log.lines[0]), /no build for this machine/);
});

test("linux does not fall back: the error states the reason", async () => {
  assert.equal(await chooseEngine({ engine: "linux", workers: 0 }, new LineLog(), working), stand);
  await assert.rejects(
    chooseEngine({ engine: "linux", workers: 0 }, new LineLog(), missing),
    (error) => hasCode(error, "engine-unavailable") && describeError(error).includes("no build for this machine"),
  );
});

test("the check passes an engine that relays, and fails one that writes a wrong header or does not start", async () => {
  await checkEngine(makePortableEngine);
  const wrongPort: MakeEngine = (options) => {
    const engine = makePortableEngine(options);
    const start = engine.start.bind(engine);
    engine.start = (plan) =>
      start({ ...plan, listeners: plan.listeners.map((listener) => ({ ...listener, declaredPort: 80 })) });
    return engine;
  };
  await assert.rejects(checkEngine(wrongPort), /header/);
  const noHeader: MakeEngine = (options) => {
    const engine = makePortableEngine(options);
    const start = engine.start.bind(engine);
    engine.start = (plan) =>
      start({ ...plan, listeners: plan.listeners.map((listener) => ({ ...listener, protocol: "none" })) });
    return engine;
  };
  await assert.rejects(checkEngine(noHeader), /header/);
  const broken: MakeEngine = (options) => {
    const engine = makePortableEngine(options);
    engine.start = () => Promise.reject(new Error("no epoll"));
    return engine;
  };
  await assert.rejects(checkEngine(broken), /no epoll/);
});
