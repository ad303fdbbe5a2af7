import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { fakeConnect } from "#test/fakes/fake-net.ts";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { connectSocket } from "./connect-socket.ts";

function start(t: TestContext, { timeoutMs = 3_000, keepaliveMs = 15_000 } = {}) {
  const pass = stopTime(t, 3_000);
  const [socket, ...others] = [fakeConnect(t)].flatMap((sockets) => {
    const outcomes: unknown[] = [];
    const cancel = connectSocket({ address: "10.0.0.1", port: 443, timeoutMs, keepaliveMs }, (outcome) =>
      outcomes.push(outcome),
    );
    return sockets.map((one) => ({ socket: one, outcomes, cancel }));
  });
  assert.equal(others.length, 0);
  return { pass, ...(socket ?? assert.fail()) };
}

test("the socket allows half-open connections, has no delay and has keepalive", (t) => {
  const shared = { host: "10.0.0.1", port: 443, allowHalfOpen: true, noDelay: true };
  assert.deepEqual(start(t).socket.options, { ...shared, keepAlive: true, keepAliveInitialDelay: 15_000 });
});

test("a keepalive time of 0 disables keepalive", (t) => {
  const { keepAlive } = start(t, { keepaliveMs: 0 }).socket.options as { keepAlive: boolean };
  assert.equal(keepAlive, false);
});

test("a connected socket is reported with its time and without listeners, and no timeout follows", async (t) => {
  const { socket, outcomes, pass } = start(t);
  await pass(500, 500);
  socket.emit("connect");
  assert.deepEqual(outcomes, [{ connected: true, socket, seconds: 0.5 }]);
  assert.deepEqual([socket.listenerCount("connect"), socket.listenerCount("error")], [0, 0]);
  await pass(60_000, 60_000);
  assert.deepEqual([outcomes.length, socket.destroyed], [1, false]);
});

for (const [code, cause] of [
  ["ECONNREFUSED", "connection-refused"],
  ["EMFILE", "local-limit"],
] as const) {
  test(`a socket that fails with ${code} is destroyed and reported once`, async (t) => {
    const { socket, outcomes, pass } = start(t);
    socket.fail(code);
    assert.deepEqual(outcomes, [{ connected: false, cause, detail: `connect ${code}` }]);
    assert.equal(socket.destroyed, true);
    socket.fail("ECONNRESET");
    socket.emit("connect");
    await pass(60_000, 60_000);
    assert.equal(outcomes.length, 1);
  });
}

test("a socket that does not connect in time is destroyed; a later error is ignored", async (t) => {
  const { socket, outcomes, pass } = start(t);
  await pass(2_999, 2_999);
  assert.deepEqual([outcomes, socket.destroyed], [[], false]);
  await pass(1);
  const detail = "no answer from 10.0.0.1:443 in 3000 ms";
  assert.deepEqual([outcomes, socket.destroyed], [[{ connected: false, cause: "timeout", detail }], true]);
  socket.fail("ECONNRESET");
  socket.emit("connect");
  assert.equal(outcomes.length, 1);
});

test("a timeout of 0 means no timeout", async (t) => {
  const none = start(t, { timeoutMs: 0 });
  await none.pass(3_600_000, 3_600_000);
  assert.deepEqual(none.outcomes, []);
});

test("a timeout of one millisecond counts", async (t) => {
  const { outcomes, pass } = start(t, { timeoutMs: 1 });
  await pass(1);
  assert.equal(outcomes.length, 1);
});

test("a cancelled connect reports nothing, whatever happens later", async (t) => {
  const { socket, outcomes, pass, cancel } = start(t);
  cancel();
  assert.equal(socket.destroyed, true);
  socket.fail("ECONNRESET");
  socket.emit("connect");
  await pass(60_000, 60_000);
  assert.deepEqual(outcomes, []);
});
