import assert from "node:assert/strict";
import { test } from "node:test";
import { CLIENT, connectionRig, HEADER, reset, SECOND, UPSTREAM } from "#test/fakes/connection-rig.ts";
import { EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, ERRNO } from "./abi.ts";
import { PHASE } from "./connection-phase.ts";
import { IO_OFFSET } from "./memory.ts";
import { READ_BYTES } from "./pump.ts";

const READ = `recv ${CLIENT} @${IO_OFFSET} ${READ_BYTES} 0`;
const START = IO_OFFSET - HEADER.length;
/** A send of the header and the bytes after it. */
const send = (length: number, fd = UPSTREAM) => `send ${fd} @${START} ${length} ${0x4000}`;
const names = (calls: string[]) => calls.map((call) => call.split(" ").slice(0, 2).join(" "));
const DIALLED = ["socket 2", `connect ${UPSTREAM}`];
const CLOSED = [`unregister ${CLIENT}`, `unregister ${UPSTREAM}`, "closed"];

/** A connection whose client has sent nothing yet, while the upstream is dialled. */
function connecting(script: Parameters<typeof connectionRig>[0] = {}) {
  const rig = connectionRig(script);
  rig.connection.open(HEADER);
  rig.calls();
  rig.events();
  return { ...rig, upstream: rig.connection.upstream ?? assert.fail() };
}

test("first bytes that are available at once leave with the header, before epoll watches the sockets", () => {
  const { connection, calls, events, reads, sent, counters, timeout } = connectionRig();
  reads(CLIENT, "hello");
  connection.open(HEADER);
  const all = calls();
  assert.deepEqual([all[0], names(all.slice(1, 3)), all.slice(3)], [READ, DIALLED, [send(HEADER.length + 5)]]);
  assert.deepEqual(sent(), [`${UPSTREAM}: PROXY\r\nhello`]);
  const watched = [`register ${CLIENT} quiet`, `register ${UPSTREAM} quiet`];
  assert.deepEqual(events(), [`${CLIENT} read 5`, "connected", ...watched]);
  assert.deepEqual(
    [connection.phase, timeout(), counters().connectBuckets.some((count) => count > 0)],
    [PHASE.relaying, undefined, true],
  );
  const { writable, isArmed, hasBeenWritten } = connection.upstream ?? assert.fail();
  assert.deepEqual({ writable, isArmed, hasBeenWritten }, { writable: true, isArmed: false, hasBeenWritten: true });
});

test("the rest of a partial early write waits until the upstream is writable", () => {
  const { connection, events, reads, sends, sent } = connectionRig();
  reads(CLIENT, "hello");
  sends(UPSTREAM, HEADER.length + 2);
  connection.open(HEADER);
  assert.deepEqual(events().slice(1), ["connected", `register ${CLIENT} quiet`, `register ${UPSTREAM} armed`]);
  const upstream = connection.upstream ?? assert.fail();
  assert.deepEqual(
    [String(connection.client.pending), upstream.writable, upstream.isArmed],
    [Buffer.from("llo").join(), false, true],
  );
  connection.onEvents(upstream, EPOLLOUT);
  assert.deepEqual(sent().join(""), `${UPSTREAM}: PROXY\r\nhe${UPSTREAM}: llo`);
});

for (const errno of ["EAGAIN", "EINTR"] as const) {
  test(`a premature early write (${errno}) keeps its bytes until the connect; the next connections skip it`, () => {
    const { connection, listener, events, reads, sends, timeout, sent } = connectionRig();
    reads(CLIENT, "hello");
    sends(UPSTREAM, -ERRNO[errno]);
    connection.open(HEADER);
    assert.deepEqual(events(), [`${CLIENT} read 5`, `register ${CLIENT} quiet`, `register ${UPSTREAM} armed`]);
    assert.deepEqual([connection.phase, timeout(), listener.shouldWriteEarly()], [PHASE.connecting, 5_000, false]);
    connection.onEvents(connection.upstream ?? assert.fail(), EPOLLOUT);
    assert.deepEqual(
      [sent(), connection.phase, connection.client.pending, timeout()],
      [[`${UPSTREAM}: PROXY\r\nhello`], PHASE.relaying, undefined, undefined],
    );
  });
}

test("after a refused early write, the next address gets the same bytes", () => {
  const { connection, calls, events, reads, sends, sent, counters } = connectionRig({
    addresses: ["10.0.0.1", "10.0.0.2"],
  });
  reads(CLIENT, "hello");
  sends(UPSTREAM, -111);
  connection.open(HEADER);
  assert.deepEqual(names(calls()).slice(-3), [`close ${UPSTREAM}`, "socket 2", `connect ${SECOND}`]);
  const watched = [`register ${CLIENT} quiet`, `register ${SECOND} armed`];
  assert.deepEqual(events().slice(1), [`unregister ${UPSTREAM}`, ...watched]);
  connection.onEvents(connection.upstream ?? assert.fail(), EPOLLOUT);
  assert.deepEqual([sent(), counters().dialErrors["connection-refused"]], [[`${SECOND}: PROXY\r\nhello`], 1]);
});

test("after a refused early write to the only address, the client is reset", () => {
  const { connection, calls, events, reads, sends, counters } = connectionRig();
  reads(CLIENT, "hello");
  sends(UPSTREAM, -111);
  connection.open(HEADER);
  assert.deepEqual(calls().slice(-2), reset(CLIENT));
  assert.deepEqual(events().slice(-3), ["not connected: connection-refused", `unregister ${CLIENT}`, "closed"]);
  assert.equal(counters().refused.upstream, 1);
});

test("a client that has sent nothing yet is watched while the upstream is dialled", () => {
  const { connection, calls, events, timeout } = connectionRig();
  connection.open(HEADER);
  assert.deepEqual(names(calls()), [`recv ${CLIENT}`, ...DIALLED]);
  assert.deepEqual(events(), [`register ${CLIENT} quiet`, `register ${UPSTREAM} armed`]);
  assert.deepEqual([connection.phase, connection.client.readable, timeout()], [PHASE.connecting, false, 5_000]);
});

test("a connect timeout of 0 sets no timeout", () => {
  assert.equal(connecting({ connectTimeoutMs: 0 }).timeout(), undefined);
});

test("if the client has sent its FIN, the header is sent at once, and the FIN after it", () => {
  const { connection, calls, reads, sent } = connectionRig();
  reads(CLIENT, 0);
  connection.open(HEADER);
  assert.deepEqual(sent(), [`${UPSTREAM}: PROXY\r\n`]);
  assert.deepEqual(calls().slice(-2), [send(HEADER.length), `shutdown ${UPSTREAM} 1`]);
  assert.equal(connection.client.finForwarded, true);
});

test("with neither a header nor bytes nothing is sent before the connect", () => {
  const { connection, calls, reads } = connectionRig();
  reads(CLIENT, 0);
  connection.open();
  assert.deepEqual(names(calls()), [`recv ${CLIENT}`, ...DIALLED]);
  assert.equal(connection.phase, PHASE.connecting);
});

test("without a header, bytes that are available are sent alone", () => {
  const { connection, reads, sent } = connectionRig();
  reads(CLIENT, "hello");
  connection.open();
  assert.deepEqual(sent(), [`${UPSTREAM}: hello`]);
});

test("a listener that skips early writes does not read before the connect", () => {
  const { connection, listener, calls } = connectionRig();
  listener.recordEarlyWrite(false);
  connection.open(HEADER);
  assert.deepEqual(names(calls()), DIALLED);
});

test("a first read that fills the buffer is followed by another", () => {
  const { connection, reads, sent } = connectionRig();
  reads(CLIENT, "x".repeat(READ_BYTES), "more");
  connection.open(HEADER);
  assert.equal(sent().join("").length, `${UPSTREAM}: PROXY\r\n`.length + READ_BYTES + `${UPSTREAM}: more`.length);
  assert.equal(connection.client.isBulk, false);
});

test("a client that was reset before the first read is cut, and no address is dialled", () => {
  const { connection, calls, events, reads, counters } = connectionRig();
  reads(CLIENT, -ERRNO.ECONNRESET);
  connection.open(HEADER);
  assert.deepEqual(
    [calls(), events()],
    [
      [READ, ...reset(CLIENT)],
      [`unregister ${CLIENT}`, "closed"],
    ],
  );
  assert.deepEqual([connection.isClosed(), counters().cut["client-reset"]], [true, 1]);
});

test("an interrupted read is repeated later", () => {
  const { connection, events, reads } = connectionRig();
  reads(CLIENT, -ERRNO.EINTR);
  connection.open(HEADER);
  assert.deepEqual([events()[0], connection.client.readable], ["requeue", true]);
});

test("a client that begins with a forbidden header is refused, and no address is dialled", () => {
  const { connection, calls, events, reads } = connectionRig({ refusesClientHeaders: true });
  reads(CLIENT, "PROXY TCP4 1.2.3.4");
  connection.open(HEADER);
  assert.deepEqual(calls(), [READ, ...reset(CLIENT)]);
  assert.deepEqual(events(), [`${CLIENT} read 18`, "client header refused", `unregister ${CLIENT}`, "closed"]);
});

test("a client that begins with something else is not refused", () => {
  const { connection, reads, sent } = connectionRig({ refusesClientHeaders: true });
  reads(CLIENT, "GET / HTTP/1.1");
  connection.open(HEADER);
  assert.deepEqual(sent(), [`${UPSTREAM}: PROXY\r\nGET / HTTP/1.1`]);
});

test("without an address the client is reset", () => {
  const { connection, calls, events, counters } = connectionRig({ addresses: [] });
  connection.open(HEADER);
  assert.deepEqual(calls(), [READ, ...reset(CLIENT)]);
  assert.deepEqual(events(), ["not connected: dns-timeout", `unregister ${CLIENT}`, "closed"]);
  assert.equal(counters().refused.upstream, 1);
});

test("without a descriptor for the upstream the client is reset, and no address counts as failed", () => {
  const { rig, connection, calls, events, counters } = connectionRig();
  rig.sockets = [-ERRNO.EMFILE];
  connection.open(HEADER);
  assert.deepEqual(calls().slice(-2), reset(CLIENT));
  assert.deepEqual(events(), ["out of resources: socket EMFILE", `unregister ${CLIENT}`, "closed"]);
  assert.equal(counters().refused.upstream, 0);
});

for (const fd of [CLIENT, UPSTREAM]) {
  test(`if epoll refuses a socket (${fd}), both sockets are reset`, () => {
    for (const bytes of [[], ["hello"]]) {
      const { rig, connection, calls, events, reads } = connectionRig();
      rig.unregistrable.add(fd);
      reads(CLIENT, ...bytes);
      connection.open(HEADER);
      assert.deepEqual(calls().slice(-4), [...reset(CLIENT), ...reset(UPSTREAM)]);
      assert.deepEqual(events().slice(-4), ["out of resources: epoll_ctl", ...CLOSED]);
    }
  });
}

test("events before the connect has completed change nothing", () => {
  const { connection, upstream, calls, events } = connecting();
  connection.onEvents(upstream, EPOLLIN);
  connection.onEvents(connection.client, EPOLLIN);
  assert.deepEqual([calls(), events(), connection.phase], [[], [], PHASE.connecting]);
});

test("once connected, the header waits for the client's first bytes, and is then sent with them", () => {
  const { connection, upstream, reads, events, calls, sent, timeout } = connecting();
  connection.silentSweeps = 3;
  connection.onEvents(upstream, EPOLLOUT);
  assert.deepEqual(
    [events(), connection.phase, timeout(), connection.silentSweeps],
    [["connected"], PHASE.awaitingFirstBytes, 50, 0],
  );
  assert.deepEqual(calls(), []);
  reads(CLIENT, "hello");
  connection.onEvents(connection.client, EPOLLIN);
  assert.deepEqual([sent(), connection.phase, timeout()], [[`${UPSTREAM}: PROXY\r\nhello`], PHASE.relaying, undefined]);
});

test("if the client sends nothing for 50 ms, the header is sent alone", () => {
  const { connection, upstream, pass, sent, reads } = connecting();
  connection.onEvents(upstream, EPOLLOUT);
  pass(49);
  assert.deepEqual(sent(), []);
  pass(1);
  assert.deepEqual([sent(), connection.phase], [[`${UPSTREAM}: PROXY\r\n`], PHASE.relaying]);
  reads(CLIENT, "hello");
  connection.onEvents(connection.client, EPOLLIN);
  assert.deepEqual(sent(), [`${UPSTREAM}: hello`]);
});

test("without a header the connection relays as soon as it is connected", () => {
  const rig = connectionRig();
  rig.connection.open();
  rig.reads(UPSTREAM, "banner");
  rig.connection.onEvents(rig.connection.upstream ?? assert.fail(), EPOLLOUT | EPOLLIN);
  assert.deepEqual([rig.sent(), rig.connection.phase], [[`${CLIENT}: banner`], PHASE.relaying]);
});

test("a header that cannot be sent resets the connection; if the upstream was closed, the client may finish", () => {
  const failing = connecting();
  failing.connection.onEvents(failing.upstream, EPOLLOUT);
  failing.sends(UPSTREAM, -ERRNO.ECONNRESET);
  failing.pass(50);
  assert.equal(failing.counters().cut["upstream-reset"], 1);
  const closed = connecting();
  closed.connection.onEvents(closed.upstream, EPOLLOUT);
  closed.sends(UPSTREAM, -ERRNO.EPIPE);
  closed.pass(50);
  assert.deepEqual([closed.connection.phase, closed.timeout()], [PHASE.lingering, 30_000]);
});

for (const [what, flags, error, cause] of [
  ["fails", EPOLLERR, 111, "connection-refused"],
  ["is hung up", EPOLLHUP, 113, "unreachable"],
  ["fails without saying why", EPOLLERR | EPOLLOUT, 0, "connection-refused"],
] as const) {
  test(`after a connect that ${what} the next address is tried, and after the last one the client is reset`, () => {
    const { rig, connection, upstream, calls, events, counters, timeout } = connecting({
      addresses: ["10.0.0.1", "10.0.0.2"],
    });
    rig.error = error;
    rig.now += 1_000;
    connection.onEvents(upstream, flags);
    assert.deepEqual(names(calls()), [`getsockopt ${UPSTREAM}`, `close ${UPSTREAM}`, "socket 2", `connect ${SECOND}`]);
    assert.deepEqual([events(), timeout()], [[`unregister ${UPSTREAM}`, `register ${SECOND} armed`], 5_000]);
    connection.onEvents(connection.upstream ?? assert.fail(), flags);
    assert.deepEqual(events(), [
      `unregister ${SECOND}`,
      `not connected: ${cause},${cause}`,
      `unregister ${CLIENT}`,
      "closed",
    ]);
    assert.deepEqual([counters().dialErrors[cause], counters().refused.upstream, timeout()], [2, 1, undefined]);
  });
}

test("if an address does not answer in time, the next one is tried", () => {
  const { connection, pass, calls, events, counters } = connecting({ addresses: ["10.0.0.1", "10.0.0.2"] });
  pass(1_499);
  assert.deepEqual(calls(), []);
  pass(1);
  assert.deepEqual(names(calls()), [`close ${UPSTREAM}`, "socket 2", `connect ${SECOND}`]);
  assert.deepEqual(
    [events(), counters().dialErrors.timeout],
    [[`unregister ${UPSTREAM}`, `register ${SECOND} armed`], 1],
  );
  pass(4_999);
  assert.deepEqual(calls(), []);
  pass(1);
  assert.deepEqual(
    [events().slice(1), connection.isClosed()],
    [["not connected: timeout,timeout", `unregister ${CLIENT}`, "closed"], true],
  );
});
