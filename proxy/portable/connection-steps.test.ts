import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { newTargetStats } from "../target-stats.ts";
import { PortableConnection } from "./connection.ts";

/** A socket that does nothing by itself and records the calls to it. */
class FakeSocket extends EventEmitter {
  readonly #name: string;
  readonly #calls: string[];
  /** Results of the next writes. Later writes return true. */
  readonly takes: boolean[] = [];
  destroyed = false;
  writableEnded = false;
  writableFinished = false;
  writableLength = 0;

  constructor(name: string, calls: string[]) {
    super();
    this.#name = name;
    this.#calls = calls;
  }

  write(bytes: Buffer): boolean {
    this.#calls.push(`${this.#name} write ${bytes}`);
    return this.takes.shift() ?? true;
  }

  end(): this {
    this.writableEnded = true;
    return this.#note("end");
  }

  pause(): this {
    return this.#note("pause");
  }

  resume(): this {
    return this.#note("resume");
  }

  destroy(): this {
    this.destroyed = true;
    return this.#note("destroy");
  }

  resetAndDestroy(): this {
    this.destroyed = true;
    return this.#note("reset");
  }

  #note(call: string): this {
    this.#calls.push(`${this.#name} ${call}`);
    return this;
  }
}

function start(t: TestContext, { header = "HEADER ", onClientHeader = undefined as (() => void) | undefined } = {}) {
  const pass = stopTime(t, 1_000);
  const log: string[] = [];
  const [client, upstream] = [new FakeSocket("client", log), new FakeSocket("upstream", log)];
  const stats = newTargetStats();
  let closed = 0;
  let cancelled = 0;
  const connection = new PortableConnection(client as unknown as Socket, {
    header: Buffer.from(header),
    firstBytesMs: 50,
    lingerMs: 30_000,
    stats,
    onClosed: () => {
      closed += 1;
    },
    ...(onClientHeader && { onClientHeader }),
  });
  connection.setDialCancel(() => {
    cancelled += 1;
  });
  const calls = () => log.splice(0);
  const say = (socket: FakeSocket, text: string) => socket.emit("data", Buffer.from(text));
  const connect = () => connection.connected(upstream as unknown as Socket);
  /** Connects, and sends the header with the client's `hello`. */
  const relay = () => {
    connect();
    say(client, "hello");
    calls();
  };
  const cuts = () => Object.fromEntries(Object.entries(stats.cut).filter(([, count]) => count > 0));
  return {
    pass,
    client,
    upstream,
    stats,
    connection,
    calls,
    say,
    connect,
    relay,
    cuts,
    ended: () => [closed, cancelled],
  };
}

const RESET = ["client reset", "upstream reset"];

test("bytes that come before the upstream is connected wait, and leave with the header in one write", (t) => {
  const { client, calls, say, connect, stats, ended } = start(t);
  say(client, "hel");
  say(client, "lo");
  assert.deepEqual([calls(), stats.clientBytes], [["client pause", "client pause"], 5]);
  connect();
  assert.deepEqual(
    [calls(), ended()],
    [
      ["upstream write HEADER hello", "client resume"],
      [0, 0],
    ],
  );
});

test("the header waits 50 ms for the client's first bytes, and is then sent alone", async (t) => {
  const { client, calls, say, connect, pass } = start(t);
  connect();
  await pass(49, 49);
  assert.deepEqual(calls(), []);
  await pass(1, 1);
  assert.deepEqual(calls(), ["upstream write HEADER ", "client resume"]);
  say(client, "hello");
  assert.deepEqual(calls(), ["upstream write hello"]);
});

test("first bytes that come within 50 ms leave with the header, which is not sent again", async (t) => {
  const { client, calls, say, connect, pass } = start(t);
  connect();
  say(client, "hello");
  assert.deepEqual(calls(), ["upstream write HEADER hello", "client resume"]);
  await pass(60_000);
  assert.deepEqual(calls(), []);
});

test("without a header nothing is sent before the client's bytes", (t) => {
  const { client, calls, say, connect } = start(t, { header: "" });
  connect();
  assert.deepEqual(calls(), ["client resume"]);
  say(client, "hello");
  assert.deepEqual(calls(), ["upstream write hello"]);
});

test("if the client ends before or after the connect, the header is sent, and the end after it", (t) => {
  const before = start(t);
  before.client.emit("end");
  assert.deepEqual(before.calls(), []);
  before.connect();
  assert.deepEqual(before.calls(), ["upstream write HEADER ", "client resume", "upstream end"]);
  t.mock.reset();
  t.mock.timers.reset();
  const after = start(t);
  after.connect();
  after.client.emit("end");
  assert.deepEqual(after.calls(), ["upstream write HEADER ", "client resume", "upstream end"]);
});

test("the end of each side is passed on separately", (t) => {
  const { client, upstream, calls, relay, connection } = start(t);
  relay();
  assert.equal(connection.isHalfClosed, false);
  client.emit("end");
  assert.deepEqual([calls(), connection.isHalfClosed], [["upstream end"], false]);
  upstream.emit("end");
  assert.deepEqual([calls(), connection.isHalfClosed], [["client end"], true]);
});

test("a full socket pauses the other one until it drains", (t) => {
  const { client, upstream, calls, say, relay } = start(t);
  relay();
  upstream.takes.push(false);
  say(client, "more");
  upstream.emit("drain");
  client.takes.push(false);
  say(upstream, "answer");
  client.emit("drain");
  assert.deepEqual(calls(), [
    "upstream write more",
    "client pause",
    "client resume",
    "client write answer",
    "upstream pause",
    "upstream resume",
  ]);
});

test("a header that fills the upstream pauses the client; a drain before the connect resumes nothing", (t) => {
  const { client, upstream, calls, say, connect } = start(t);
  client.emit("drain");
  upstream.takes.push(false);
  connect();
  say(client, "hello");
  assert.deepEqual(calls(), ["upstream write HEADER hello", "client pause"]);
});

test("bytes for an upstream that is gone are dropped, and counted", (t) => {
  const { client, upstream, calls, say, relay, stats } = start(t);
  relay();
  upstream.destroyed = true;
  say(client, "more");
  assert.deepEqual([calls(), stats.clientBytes], [[], 9]);
});

test("bytes, drains, the connect and the upstream's end count as traffic", (t) => {
  const { client, upstream, say, connect, connection } = start(t);
  for (const act of [
    () => say(client, "x"),
    connect,
    () => say(upstream, "x"),
    () => client.emit("drain"),
    () => upstream.emit("drain"),
    () => upstream.emit("end"),
  ]) {
    connection.active = false;
    act();
    assert.equal(connection.active, true);
  }
});

test("a client's reset before the connect cancels the dial once; the end is reported when its socket closes", (t) => {
  const { client, calls, cuts, ended, connection } = start(t);
  client.emit("error", new Error("ECONNRESET"));
  assert.deepEqual([calls(), cuts(), ended()], [["client reset"], { "client-reset": 1 }, [0, 1]]);
  connection.cut("drain");
  assert.deepEqual(cuts(), { "client-reset": 1 });
  client.emit("close");
  assert.deepEqual(ended(), [1, 1]);
});

test("a client whose socket closes during the dial cancels it", (t) => {
  const { client, ended } = start(t);
  client.emit("close");
  assert.deepEqual(ended(), [1, 1]);
});

test("a refused client is reset, and does not count as cut", (t) => {
  const { client, calls, cuts, connection } = start(t);
  connection.refuse();
  client.emit("error", new Error("x"));
  assert.deepEqual([calls(), cuts()], [["client reset"], {}]);
});

test("the end is reported when both sockets are closed, and no timer is left", async (t) => {
  const { client, upstream, connect, calls, pass, ended } = start(t);
  connect();
  client.emit("close");
  assert.deepEqual(ended(), [0, 0]);
  upstream.emit("close");
  assert.deepEqual(ended(), [1, 0]);
  await pass(60_000);
  assert.deepEqual(calls(), []);
});

test("a reset of one side resets the other, and ends the wait for first bytes", async (t) => {
  for (const [name, cause] of [
    ["client", "client-reset"],
    ["upstream", "upstream-reset"],
  ] as const) {
    const rig = start(t);
    rig.connect();
    rig[name].emit("error", new Error("ECONNRESET"));
    assert.deepEqual([rig.calls(), rig.cuts()], [RESET, { [cause]: 1 }]);
    await rig.pass(1_000);
    assert.deepEqual(rig.calls(), []);
    t.mock.reset();
    t.mock.timers.reset();
  }
});

test("a socket that is shutting down is reset after its FIN; a socket with unsent bytes is reset at once", (t) => {
  const { upstream, client, calls, relay, connection } = start(t);
  relay();
  Object.assign(client, { writableEnded: true, writableLength: 5 });
  Object.assign(upstream, { writableEnded: true });
  connection.cut("idle-timeout");
  assert.deepEqual(calls(), ["client reset", "upstream pause"]);
  upstream.emit("finish");
  assert.deepEqual(calls(), ["upstream reset"]);
});

test("a socket whose FIN is sent, or that is destroyed, is reset at once", (t) => {
  const { upstream, client, calls, relay, connection } = start(t);
  relay();
  Object.assign(client, { writableEnded: true, writableFinished: true });
  Object.assign(upstream, { writableEnded: true, destroyed: true });
  connection.cut("idle-timeout");
  assert.deepEqual(calls(), RESET);
});

test("after an upstream's FIN and failure the client lingers 30 s, or longer while it takes the answer", async (t) => {
  const { upstream, client, calls, relay, cuts, pass } = start(t);
  relay();
  upstream.emit("end");
  upstream.emit("error", new Error("ECONNRESET"));
  assert.deepEqual([calls(), cuts()], [["client end", "client resume"], {}]);
  client.writableLength = 5;
  await pass(30_000, 30_000);
  assert.deepEqual(calls(), []);
  client.writableLength = 0;
  await pass(29_999, 29_999);
  assert.deepEqual(cuts(), {});
  await pass(1, 1);
  assert.deepEqual([calls().at(-1), cuts()], ["upstream reset", { "upstream-reset": 1 }]);
});

test("if an upstream fails after its FIN and the client is gone, the connection is cut", (t) => {
  const { upstream, client, relay, cuts } = start(t);
  relay();
  upstream.emit("end");
  client.destroyed = true;
  upstream.emit("error", new Error("ECONNRESET"));
  assert.deepEqual(cuts(), { "upstream-reset": 1 });
});

test("a half-closed timeout closes a client that has all bytes, else resets it; the upstream is always reset", (t) => {
  for (const [writableFinished, client] of [
    [true, "client destroy"],
    [false, "client reset"],
  ] as const) {
    const rig = start(t);
    rig.relay();
    rig.client.writableFinished = writableFinished;
    rig.connection.halfClosedTimedOut();
    assert.deepEqual([rig.calls(), rig.cuts()], [[client, "upstream reset"], { "half-closed-timeout": 1 }]);
    rig.connection.halfClosedTimedOut();
    rig.connection.cut("drain");
    assert.deepEqual([rig.calls(), rig.cuts()], [[], { "half-closed-timeout": 1 }], "once");
    t.mock.reset();
    t.mock.timers.reset();
  }
});

test("a client's forbidden header in pieces of any size resets the client; its last piece is not passed on", (t) => {
  let refused = 0;
  const { client, calls, say, connect } = start(t, {
    header: "",
    onClientHeader: () => {
      refused += 1;
    },
  });
  connect();
  calls();
  for (const piece of ["PR", "OXY TCP4", " late"]) say(client, piece);
  assert.deepEqual([calls(), refused], [["upstream write PR", ...RESET], 1]);
});

test("a client that begins with something else is relayed, even if a header follows later", (t) => {
  const { client, calls, say, connect } = start(t, { header: "", onClientHeader: () => assert.fail() });
  connect();
  calls();
  for (const piece of ["PRO", "GET", "PROXY TCP4"]) say(client, piece);
  assert.deepEqual(calls(), ["upstream write PRO", "upstream write GET", "upstream write PROXY TCP4"]);
});
