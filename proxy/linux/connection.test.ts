import assert from "node:assert/strict";
import { test } from "node:test";
import { CLIENT, connectionRig, HEADER, reset, UPSTREAM } from "#test/fakes/connection-rig.ts";
import { EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, ERRNO } from "./abi.ts";
import { PHASE } from "./connection-phase.ts";

const FIN = EPOLLIN | EPOLLRDHUP;
const SHUTDOWN_UPSTREAM = `shutdown ${UPSTREAM} 1`;
const SHUTDOWN_CLIENT = `shutdown ${CLIENT} 1`;
const GONE = [`unregister ${CLIENT}`, `unregister ${UPSTREAM}`, "closed"];
const RESET = [...reset(CLIENT), ...reset(UPSTREAM)];

/** A connection that relays: the client has said `hello`. */
function relaying(script: Parameters<typeof connectionRig>[0] = {}) {
  const rig = connectionRig(script);
  rig.reads(CLIENT, "hello");
  rig.connection.open(HEADER);
  for (const forget of [rig.calls, rig.events, rig.sent]) forget();
  const { connection } = rig;
  const { client } = connection;
  const upstream = connection.upstream ?? assert.fail();
  assert.equal(connection.phase, PHASE.relaying);
  /** All system calls except reads, writes and TCP_NODELAY. */
  const ends = () => rig.calls().filter((call) => !/^(recv|send) |^setsockopt \d+ 6 1 /.test(call));
  const cuts = () => Object.fromEntries(Object.entries(rig.counters().cut).filter(([, count]) => count > 0));
  return { ...rig, client, upstream, ends, cuts };
}

test("bytes go both ways", () => {
  const { connection, client, upstream, reads, sent } = relaying();
  reads(UPSTREAM, "welcome");
  connection.onEvents(upstream, EPOLLIN);
  reads(CLIENT, "please");
  connection.onEvents(client, EPOLLIN);
  assert.deepEqual(sent(), [`${CLIENT}: welcome`, `${UPSTREAM}: please`]);
});

test("a FIN is passed on behind the last bytes; after the second one both sockets are closed", () => {
  for (const [first, second, shutdown] of [
    [CLIENT, UPSTREAM, SHUTDOWN_UPSTREAM],
    [UPSTREAM, CLIENT, SHUTDOWN_CLIENT],
  ] as const) {
    const { connection, client, upstream, reads, sent, ends, events, cuts } = relaying();
    const socket = (fd: number) => (fd === CLIENT ? client : upstream);
    connection.silentSweeps = 5;
    reads(first, "last");
    connection.onEvents(socket(first), FIN);
    assert.deepEqual([sent(), ends()], [[`${second}: last`], [shutdown]]);
    assert.deepEqual([connection.silentSweeps, connection.isHalfClosed], [0, first === UPSTREAM]);
    events();
    reads(second, "answer", 0);
    connection.onEvents(socket(second), FIN);
    assert.deepEqual([sent(), ends()], [[`${first}: answer`], [`close ${CLIENT}`, `close ${UPSTREAM}`]]);
    assert.deepEqual([events().slice(-3), connection.isClosed(), cuts()], [GONE, true, {}]);
  }
});

test("a half-closed connection continues in the other direction", () => {
  const { connection, client, upstream, reads, sent, ends } = relaying();
  reads(CLIENT, 0);
  connection.onEvents(client, FIN);
  ends();
  for (const text of ["one", "two"]) {
    reads(UPSTREAM, text);
    connection.onEvents(upstream, EPOLLIN);
  }
  assert.deepEqual([sent(), ends()], [[`${CLIENT}: one`, `${CLIENT}: two`], []]);
  connection.onEvents(client, EPOLLIN);
  assert.deepEqual(ends(), [], "a FIN is passed on once");
});

test("a client's reset resets the upstream, even if the client's bytes are unread", () => {
  const { connection, client, reads, sent, calls, events, cuts } = relaying();
  reads(CLIENT, "late");
  connection.onEvents(client, EPOLLIN | EPOLLERR);
  assert.deepEqual([sent(), calls(), events(), cuts()], [[], RESET, GONE, { "client-reset": 1 }]);
  connection.onEvents(client, EPOLLIN);
  connection.cut("drain");
  assert.deepEqual([calls(), cuts()], [[], { "client-reset": 1 }], "nothing follows");
});

test("a failed read from or write to the client resets both sockets", () => {
  const reading = relaying();
  reading.reads(CLIENT, -ERRNO.ECONNRESET);
  reading.connection.onEvents(reading.client, EPOLLIN);
  const writing = relaying();
  writing.reads(UPSTREAM, "welcome");
  writing.sends(CLIENT, -ERRNO.EPIPE);
  writing.connection.onEvents(writing.upstream, EPOLLIN);
  for (const { ends, cuts } of [reading, writing]) assert.deepEqual([ends(), cuts()], [RESET, { "client-reset": 1 }]);
});

test("an upstream's reset before its FIN resets the client, after the bytes that came first", () => {
  const { connection, upstream, reads, sent, ends, cuts } = relaying();
  reads(UPSTREAM, "half an answer", -ERRNO.ECONNRESET);
  connection.onEvents(upstream, EPOLLIN | EPOLLERR | EPOLLHUP);
  assert.deepEqual([sent(), ends(), cuts()], [[`${CLIENT}: half an answer`], RESET, { "upstream-reset": 1 }]);
});

test("a failed write cuts the connection if the upstream was reset; if it was closed, the client may finish", () => {
  const failing = relaying();
  failing.reads(CLIENT, "more");
  failing.sends(UPSTREAM, -ERRNO.ECONNRESET);
  failing.connection.onEvents(failing.client, EPOLLIN);
  assert.deepEqual([failing.ends(), failing.cuts()], [RESET, { "upstream-reset": 1 }]);
  const closed = relaying();
  closed.reads(CLIENT, "more");
  closed.sends(UPSTREAM, -ERRNO.EPIPE);
  closed.connection.onEvents(closed.client, EPOLLIN);
  assert.deepEqual([closed.ends(), closed.connection.phase, closed.timeout()], [[], PHASE.lingering, 30_000]);
});

/** A connection whose upstream has sent an answer and its FIN, and was then reset. The client may still send. */
function lingering() {
  const rig = relaying();
  rig.reads(UPSTREAM, "answer", 0);
  rig.connection.onEvents(rig.upstream, FIN);
  rig.sent();
  rig.calls();
  rig.events();
  rig.connection.onEvents(rig.upstream, EPOLLIN | EPOLLERR | EPOLLHUP);
  return rig;
}

test("after the upstream's answer and reset, the client's bytes are read and dropped until its FIN", () => {
  const { connection, client, reads, sent, ends, events, timeout, cuts } = lingering();
  assert.deepEqual(
    [connection.phase, client.isDiscarding, timeout(), events()],
    [PHASE.lingering, true, 30_000, ["requeue"]],
  );
  assert.deepEqual(ends(), []);
  reads(CLIENT, "upload");
  connection.onEvents(client, EPOLLIN);
  assert.deepEqual([sent(), events()], [[], [`${CLIENT} read 6`]]);
  reads(CLIENT, 0);
  connection.onEvents(client, FIN);
  assert.deepEqual(
    [ends(), connection.isClosed(), timeout(), cuts()],
    [[`close ${CLIENT}`, `close ${UPSTREAM}`], true, undefined, {}],
  );
});

test("a lingering client that sends for 30 s is cut, unless it still reads the answer", () => {
  const { connection, upstream, pass, ends, cuts, timeout } = lingering();
  pass(29_999);
  upstream.pending = Buffer.from("answer");
  pass(1);
  assert.deepEqual([connection.phase, timeout(), cuts()], [PHASE.lingering, 30_000, {}]);
  upstream.pending = undefined;
  pass(30_000);
  assert.deepEqual([ends(), cuts()], [RESET, { "upstream-reset": 1 }]);
});

test("a second failure of the upstream does not prolong the lingering", () => {
  const { connection, upstream, rig, timeout } = lingering();
  rig.now += 10_000;
  connection.onEvents(upstream, EPOLLERR);
  assert.equal(timeout(), 20_000);
});

test("a half-closed timeout resets both sockets if the upstream's FIN is not passed on yet", () => {
  const { connection, ends, cuts } = relaying();
  connection.halfClosedTimedOut();
  assert.deepEqual([ends(), cuts()], [RESET, { "half-closed-timeout": 1 }]);
});

test("a half-closed timeout after the FIN was passed on closes the client and resets the upstream", () => {
  const { connection, upstream, reads, ends, events, cuts } = relaying();
  reads(UPSTREAM, 0);
  connection.onEvents(upstream, FIN);
  ends();
  events();
  connection.halfClosedTimedOut();
  assert.deepEqual([ends(), events()], [[`close ${CLIENT}`, ...reset(UPSTREAM)], GONE]);
  assert.deepEqual([connection.isClosed(), cuts()], [true, { "half-closed-timeout": 1 }]);
});

for (const [what, state, expected] of [
  ["its FIN was neither reported nor read", {}, false],
  ["its FIN was reported", { finReported: true }, true],
  ["its FIN was read", { finRead: true }, true],
] as const) {
  test(`a connection is ${expected ? "" : "not "}half-closed by its upstream if ${what}`, () => {
    const { connection, upstream } = relaying();
    Object.assign(upstream, state);
    assert.equal(connection.isHalfClosed, expected);
  });
}

test("a connection without an upstream is not half-closed, and sets no keepalive", () => {
  const { connection, calls } = connectionRig();
  connection.enableUpstreamKeepalive();
  connection.advance();
  assert.deepEqual([connection.isHalfClosed, calls()], [false, []]);
});

test("keepalive towards the upstream is set once, and not before the upstream is connected", () => {
  const early = connectionRig();
  early.connection.open(HEADER);
  early.calls();
  early.connection.enableUpstreamKeepalive();
  assert.deepEqual(early.calls(), []);
  const { connection, calls } = relaying();
  connection.enableUpstreamKeepalive();
  connection.enableUpstreamKeepalive();
  const options = ["1 9 = 1", "6 4 = 15", "6 5 = 1", "6 6 = 10"];
  assert.deepEqual(
    calls(),
    options.map((option) => `setsockopt ${UPSTREAM} ${option}`),
  );
});

for (const [what, flags, state] of [
  ["bytes", EPOLLIN, { readable: false, writable: true, hungUp: false, hasUrgentData: false, silentSweeps: 2 }],
  ["room", EPOLLOUT, { readable: false, writable: true, hungUp: false, hasUrgentData: false, silentSweeps: 0 }],
  ["urgent data", EPOLLPRI, { readable: false, writable: true, hungUp: false, hasUrgentData: true, silentSweeps: 2 }],
  [
    "the peer's end",
    EPOLLHUP,
    { readable: false, writable: true, hungUp: true, hasUrgentData: false, silentSweeps: 2 },
  ],
] as const) {
  test(`an event of ${what} is remembered`, () => {
    const { connection, upstream, calls } = relaying();
    connection.silentSweeps = 2;
    connection.onEvents(upstream, flags);
    const { readable, writable, hungUp, hasUrgentData } = upstream;
    const { silentSweeps } = connection;
    assert.deepEqual({ readable, writable, hungUp, hasUrgentData, silentSweeps }, state);
    const isRead = flags === EPOLLIN || flags === EPOLLHUP;
    assert.equal(calls().filter((call) => call.startsWith(`recv ${UPSTREAM}`)).length, isRead ? 1 : 0);
  });
}

test("a FIN with an error does not count as a FIN, and a repeated FIN is not traffic", () => {
  const { connection, upstream } = relaying();
  upstream.readable = false;
  connection.onEvents(upstream, EPOLLRDHUP);
  connection.silentSweeps = 3;
  connection.onEvents(upstream, EPOLLRDHUP);
  assert.deepEqual([upstream.finReported, connection.silentSweeps], [true, 3]);
  const failed = relaying();
  failed.connection.onEvents(failed.upstream, EPOLLRDHUP | EPOLLERR);
  assert.deepEqual([failed.upstream.finReported, failed.upstream.hasFailed], [false, true]);
});

test("a stream that exceeds its budget is served again in the same round", () => {
  const { connection, client, events, reads, sent } = relaying();
  const kib = (count: number) => "x".repeat(count * 1024);
  reads(CLIENT, kib(16), ...Array.from({ length: 20 }, () => kib(64)));
  connection.onEvents(client, EPOLLIN);
  assert.deepEqual([events().at(-1), sent().length], ["requeue", 17]);
});

test("bytes that the client does not accept are kept, and dropped with the connection", () => {
  const { connection, upstream, reads, sends, events } = relaying();
  reads(UPSTREAM, "answer");
  sends(CLIENT, -ERRNO.EAGAIN);
  connection.onEvents(upstream, EPOLLIN);
  assert.deepEqual([events().at(-1), upstream.isFlushed], [`arm ${CLIENT}`, false]);
  connection.cut("idle-timeout");
  assert.equal(upstream.isFlushed, true);
});

test("a client's forbidden header is refused even if the connection already relays", () => {
  const rig = connectionRig({ refusesClientHeaders: true });
  rig.reads(CLIENT, "PRO");
  rig.connection.open();
  rig.calls();
  rig.reads(CLIENT, "XY TCP4 1.2.3.4");
  rig.connection.onEvents(rig.connection.client, EPOLLIN);
  assert.deepEqual(rig.calls().slice(-4), RESET);
  assert.ok(rig.events().includes("client header refused"));
});

test("timeouts of an earlier phase change nothing", () => {
  const { connection, calls, cuts } = relaying();
  connection.connectTimedOut();
  connection.firstBytesTimedOut();
  assert.deepEqual([calls(), cuts(), connection.phase], [[], {}, PHASE.relaying]);
});
