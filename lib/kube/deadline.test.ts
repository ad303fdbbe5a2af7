import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { type TestContext, test } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { type CallContext, withDeadline } from "./deadline.ts";

function start(t: TestContext) {
  const pass = stopTime(t);
  let dropped = 0;
  const transport = {
    dropIdle: () => {
      dropped += 1;
    },
  };
  const caller = new AbortController();
  /** A call with a deadline of three seconds, which waits until `work` settles. */
  const call = (work: (context: CallContext) => Promise<string>) =>
    withDeadline("GET /pods", { timeoutMs: 3_000, signal: caller.signal }, transport, work);
  const listeners = () => getEventListeners(caller.signal, "abort").length;
  return { pass, caller, call, listeners, dropped: () => dropped };
}

/** Work that ends only when its signal fires, and then fails with its own error. */
const hanging = ({ signal }: CallContext) =>
  new Promise<string>((_, reject) => signal.addEventListener("abort", () => reject(new Error("socket hang up"))));

test("work that ends in time returns its result, and nothing remains of the deadline", async (t) => {
  const { pass, call, listeners, dropped } = start(t);
  let seen: unknown;
  const result = call(async ({ what, remainingMs, signal }) => {
    assert.equal(listeners(), 1);
    await pass(1_000);
    seen = [what, remainingMs(), signal.aborted];
    return "done";
  });
  assert.equal(await result, "done");
  assert.deepEqual([seen, listeners()], [["GET /pods", 2_000, false], 0]);
  await pass(10_000);
  assert.equal(dropped(), 0);
});

test("work that hangs fails with a timeout at the deadline, and idle connections are dropped", async (t) => {
  const { pass, call, listeners, dropped } = start(t);
  const result = call(hanging).catch((error) => error);
  await pass(2_999, 2_999);
  assert.equal(dropped(), 0);
  await pass(1);
  const { code, message } = await result;
  assert.deepEqual([code, message], ["kube-unreachable", "GET /pods: no response within 3 s"]);
  assert.deepEqual([dropped(), listeners()], [1, 0]);
});

test("work that the caller aborts fails with the caller's reason", async (t) => {
  const { caller, call, dropped } = start(t);
  const reason = new Error("stopping");
  const result = call(hanging);
  caller.abort(reason);
  await assert.rejects(result, reason);
  assert.equal(dropped(), 0);
  let called = false;
  const late = call(async () => {
    called = true;
    return "";
  });
  await assert.rejects(late, reason);
  assert.equal(called, false, "it does not begin");
});

test("an error of the work becomes the cause of kube-unreachable, unless it has a code", async (t) => {
  const { call, listeners } = start(t);
  const cause = new Error("connect ECONNREFUSED");
  const fail = (error: Error) => call(() => Promise.reject(error));
  await assert.rejects(fail(cause), {
    code: "kube-unreachable",
    message: "GET /pods: the API server cannot be reached",
    cause,
  });
  const coded = new SwitchbackError("data-corrupt", "not JSON");
  await assert.rejects(fail(coded), coded);
  assert.equal(listeners(), 0);
});

test("a call without a signal has a deadline, too", async (t) => {
  const pass = stopTime(t);
  const result = withDeadline("GET /", { timeoutMs: 1_500 }, { dropIdle() {} }, hanging).catch(
    (error) => error.message,
  );
  await pass(1_500);
  assert.equal(await result, "GET /: no response within 1.5 s");
});

test("a timeout names the server, if it is known", async (t) => {
  const pass = stopTime(t);
  const limits = { timeoutMs: 1_500, place: "https://a.test (context)" };
  const result = withDeadline("GET /", limits, { dropIdle() {} }, hanging).catch((error) => error.message);
  await pass(1_500);
  assert.equal(await result, "GET /: no response within 1.5 s from https://a.test (context)");
});
