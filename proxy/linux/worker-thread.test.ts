import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import { type TestContext, test } from "node:test";
import threads from "node:worker_threads";
import { type Answer, recordingLibc } from "#test/fakes/recording-libc.ts";
import { isSettled } from "#test/fakes/stopped-time.ts";
import { WORDS_OFFSET } from "./memory.ts";
import type { Reply } from "./worker-messages.ts";
import { WorkerThread } from "./worker-thread.ts";

const DATA = { limits: {}, connectionLimits: new SharedArrayBuffer(8) } as unknown as ConstructorParameters<
  typeof WorkerThread
>[1];

class FakeWorker extends EventEmitter {
  readonly posted: unknown[] = [];
  readonly url: URL;
  readonly options: object;

  constructor(url: URL, options: object) {
    super();
    this.url = url;
    this.options = options;
  }

  postMessage(message: unknown): void {
    this.posted.push(message);
  }

  reply(reply: Reply): void {
    this.emit("message", reply);
  }
}

/** A thread whose worker the test controls. `written`: the eventfd writes that wake it. */
function start(t: TestContext, answer: Answer = () => undefined) {
  const made: FakeWorker[] = [];
  const real = threads.Worker;
  threads.Worker = class extends FakeWorker {
    constructor(url: URL, options: object) {
      super(url, options);
      made.push(this);
    }
  } as unknown as typeof threads.Worker;
  syncBuiltinESMExports();
  t.after(() => {
    threads.Worker = real;
    syncBuiltinESMExports();
  });
  const written: string[] = [];
  const { libc, taken } = recordingLibc((call, values, memory) => {
    if (call === "write") {
      const words = memory.words.subarray(WORDS_OFFSET >> 2, (WORDS_OFFSET >> 2) + 2);
      written.push(`${values[0]}: ${words.join()} of ${values[2]}`);
    }
    return answer(call, values, memory);
  });
  const reports: unknown[] = [];
  const exits = process.listeners("exit");
  const thread = new WorkerThread(libc, DATA, (report) => reports.push(report));
  const worker = made[0] ?? assert.fail();
  const onExit = () => process.listeners("exit").filter((listener) => !exits.includes(listener));
  t.after(() => {
    for (const listener of onExit()) process.off("exit", listener);
  });
  return { thread, worker, reports, taken, written, onExit };
}

test("a worker gets its data, an eventfd that wakes it, none of the process's flags and a small heap", (t) => {
  const { worker, taken } = start(t);
  assert.deepEqual(taken(), [`eventfd 0 ${0o2004000}`]);
  assert.deepEqual(worker.options, {
    workerData: { ...DATA, wake: 100 },
    execArgv: [],
    resourceLimits: { maxYoungGenerationSizeMb: 2 },
  });
  assert.match(worker.url.href, /\/proxy\/linux\/worker\.ts$/);
});

test("without an eventfd the constructor throws", (t) => {
  assert.throws(() => start(t, (call) => (call === "eventfd" ? -24 : undefined)), { message: "eventfd EMFILE" });
});

test("a worker is ready after its ready message; all other messages except answers are reports", async (t) => {
  const { thread, worker, reports } = start(t);
  assert.equal(await isSettled(thread.ready), false);
  const report: Reply = { kind: "refused", cause: "limit-total", count: 1, fields: {} };
  worker.reply(report);
  worker.reply({ kind: "done", id: 7, count: 1 });
  assert.equal(await isSettled(thread.ready), false);
  worker.reply({ kind: "ready" });
  await thread.ready;
  assert.deepEqual(reports, [report]);
});

test("each command is posted with a unique id and wakes the worker; its answer is the count", async (t) => {
  const { thread, worker, written } = start(t);
  const one = thread.execute({ kind: "listen", listeners: [] });
  const two = thread.execute({ kind: "cut", listener: "web:443" });
  assert.deepEqual(worker.posted, [
    { kind: "listen", listeners: [], id: 1 },
    { kind: "cut", listener: "web:443", id: 2 },
  ]);
  assert.deepEqual(written, ["100: 1,0 of 8", "100: 1,0 of 8"]);
  worker.reply({ kind: "done", id: 2, count: 5 });
  assert.deepEqual([await two, await isSettled(one)], [5, false]);
  worker.reply({ kind: "done", id: 1, count: 3 });
  assert.equal(await one, 3);
});

test("an eventfd that cannot be written is an error", (t) => {
  const { thread } = start(t, (call) => (call === "write" ? -9 : undefined));
  assert.throws(() => thread.execute({ kind: "cut", listener: undefined }), { message: "write EBADF" });
});

test("a worker that exits on command ends without an error, and answers later commands with 0", async (t) => {
  const { thread, worker, taken, onExit } = start(t);
  worker.reply({ kind: "ready" });
  const exit = thread.execute({ kind: "exit" });
  const late = thread.execute({ kind: "cut", listener: undefined });
  assert.deepEqual([thread.hasEnded, onExit().length], [false, 1]);
  taken();
  worker.emit("exit", 0);
  assert.deepEqual([await exit, await late, await thread.ended, thread.hasEnded], [0, 0, undefined, true]);
  assert.deepEqual([taken(), onExit().length], [["close 100"], 0]);
  const posted = worker.posted.length;
  assert.equal(await thread.execute({ kind: "cut", listener: undefined }), 0);
  assert.deepEqual([worker.posted.length, taken()], [posted, []]);
});

for (const [what, error, message] of [
  ["by an error", new Error("epoll_ctl EBADF"), "epoll_ctl EBADF"],
  ["by something else that is thrown", "a text", "a text"],
  ["by itself", undefined, "the worker ended with code 3"],
] as const) {
  test(`a worker that ends ${what} reports the reason, and its ready promise rejects`, async (t) => {
    const { thread, worker } = start(t);
    if (error !== undefined) worker.emit("error", error);
    worker.emit("exit", 3);
    assert.equal((await thread.ended)?.message, message);
    await assert.rejects(thread.ready, { message });
  });
}

test("a worker that exits before it is ready rejects its ready promise", async (t) => {
  const { thread, worker } = start(t);
  void thread.execute({ kind: "exit" });
  worker.emit("exit", 0);
  await assert.rejects(thread.ready, { message: "the worker has ended" });
});

test("a process that ends sends its worker exit, because the worker would keep the process alive", (t) => {
  const { worker, written, onExit } = start(t);
  const [listener] = onExit();
  (listener as (code: number) => void)(0);
  assert.deepEqual([worker.posted, written], [[{ kind: "exit", id: 0 }], ["100: 1,0 of 8"]]);
});
