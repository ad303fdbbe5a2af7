import assert from "node:assert/strict";
import { test } from "node:test";
import { ARMED_EVENTS, QUIET_EVENTS, type SocketOwner, SocketState } from "./socket-state.ts";

const CONNECTION = {} as SocketOwner;

test("a new client socket has TCP_NODELAY and is not armed; a new upstream socket is armed", () => {
  const nothing = {
    serial: 0,
    readable: false,
    writable: false,
    hungUp: false,
    finReported: false,
    hasUrgentData: false,
    hasFailed: false,
    finRead: false,
    finForwarded: false,
    isDiscarding: false,
    hasBeenWritten: false,
    hasKeepalive: false,
    isBulk: false,
    signature: undefined,
    pending: undefined,
    pipe: undefined,
  };
  for (const isClient of [true, false]) {
    assert.deepEqual(
      { ...new SocketState(CONNECTION, 7, isClient) },
      { ...nothing, connection: CONNECTION, fd: 7, isClient, isArmed: !isClient, hasNoDelay: isClient },
    );
  }
});

test("the events are edges of input, urgent data and the peer's FIN and, if armed, of output", () => {
  const [input, urgent, output, fin, edge] = [0x1, 0x2, 0x4, 0x2000, 0x80000000];
  assert.deepEqual(
    [QUIET_EVENTS >>> 0, ARMED_EVENTS >>> 0],
    [input + urgent + fin + edge, input + urgent + output + fin + edge],
  );
});

for (const [what, before, after] of [
  ["waits for the next edge", {}, { readable: false, finRead: false }],
  ["goes on where the peer was lost", { hungUp: true }, { readable: true, finRead: false }],
  ["is the last one behind a FIN", { hungUp: true, finReported: true }, { readable: true, finRead: true }],
  ["says nothing with urgent data", { hasUrgentData: true }, { readable: true, finRead: false }],
  [
    "says nothing with urgent data behind a FIN",
    { hasUrgentData: true, hungUp: true, finReported: true },
    { readable: true, finRead: false },
  ],
] as const) {
  test(`a short read ${what}`, () => {
    const socket = Object.assign(new SocketState(CONNECTION, 7, true), { readable: true, ...before });
    socket.recordShortRead();
    assert.deepEqual({ readable: socket.readable, finRead: socket.finRead }, after);
  });
}

test("a socket is flushed when neither bytes nor a pipe wait for the other socket", () => {
  const flushed = (waiting: Partial<SocketState>) =>
    Object.assign(new SocketState(CONNECTION, 7, true), waiting).isFlushed;
  const pipe = { read: 1, write: 2, bytes: 0 };
  assert.deepEqual([flushed({}), flushed({ pending: new Uint8Array(1) }), flushed({ pipe })], [true, false, false]);
});
