import assert from "node:assert/strict";
import { test } from "node:test";
import { recordingLibc } from "#test/fakes/recording-libc.ts";
import { ERRNO } from "./abi.ts";
import { IO_BYTES, IO_OFFSET } from "./memory.ts";
import type { Pipe } from "./pipes.ts";
import { PUMP, Pump } from "./pump.ts";
import { type SocketOwner, SocketState } from "./socket-state.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const FROM = 7;
const TO = 8;
/** MSG_NOSIGNAL, without and with MSG_MORE. */
const FLAGS = 0x4000;
const LAST = 0xc000;

interface Script {
  /** Results of the reads, followed by EAGAIN. A text stands for its bytes. */
  readonly reads?: readonly (number | string)[];
  /** Results of the sends. Later sends accept all bytes. */
  readonly sends?: readonly number[];
  /**
   * Results of the splices into a pipe and out of it. Later splices return EAGAIN into it, and move all bytes out of
   * it.
   */
  readonly spliced?: readonly number[];
  readonly unspliced?: readonly number[];
  /** No pipe is left. */
  readonly isWithoutPipes?: boolean;
  readonly source?: Partial<SocketState>;
  readonly sink?: Partial<SocketState>;
}

function start({ reads = [], sends = [], spliced = [], unspliced = [], isWithoutPipes = false, ...sockets }: Script) {
  const [toRead, toSend, toSplice, toUnsplice] = [[...reads], [...sends], [...spliced], [...unspliced]];
  const sent: string[] = [];
  const { libc, taken } = recordingLibc((call, values, { bytes, address }) => {
    if (call === "recv") {
      const read = toRead.shift() ?? -ERRNO.EAGAIN;
      if (typeof read === "number") return read;
      bytes.set(Buffer.from(read), IO_OFFSET);
      return read.length;
    }
    if (call === "send") {
      const [, from = 0, length = 0] = values;
      const count = toSend.shift() ?? length;
      if (count > 0) sent.push(Buffer.from(bytes.slice(from - address, from - address + count)).toString());
      return count;
    }
    if (call !== "splice") return undefined;
    return values[0] === FROM ? (toSplice.shift() ?? -ERRNO.EAGAIN) : (toUnsplice.shift() ?? values[2]);
  });
  const events: string[] = [];
  const pipe: Pipe = { read: 21, write: 22, bytes: 0 };
  const pump = new Pump({
    libc,
    pipes: {
      acquire: () => (isWithoutPipes ? undefined : pipe),
      release: ({ bytes }: Pipe) => events.push(`pipe with ${bytes}`),
    } as never,
    arm: ({ fd }) => events.push(`arm ${fd}`),
    bytesRead: ({ fd }, count) => events.push(`${fd} read ${count}`),
  });
  const source = Object.assign(new SocketState({} as SocketOwner, FROM, true), { readable: true }, sockets.source);
  const sink = Object.assign(
    new SocketState({} as SocketOwner, TO, false),
    { writable: true, hasNoDelay: true },
    sockets.sink,
  );
  const run = () => pump.run(source, sink);
  return { pump, source, sink, run, calls: taken, sent, events: () => events.splice(0), pipe };
}

const recv = (bytes = 16 * KIB) => `recv ${FROM} @${IO_OFFSET} ${bytes} 0`;
const send = (length: number, flags = FLAGS) => `send ${TO} @${IO_OFFSET} ${length} ${flags}`;
const into = `splice ${FROM} 22 ${MIB}`;
const outOf = (bytes: number) => `splice 21 ${TO} ${bytes}`;

test("bytes that fit the buffer are read and sent, until there are no more", () => {
  const { run, calls, source, events, sent } = start({ reads: ["hello", "you"] });
  assert.equal(run(), PUMP.blocked);
  // A read that returned less than requested was the last one.
  assert.deepEqual([calls(), sent, source.readable], [[recv(), send(5)], ["hello"], false]);
  assert.deepEqual(events(), [`${FROM} read 5`]);
  source.readable = true;
  assert.equal(run(), PUMP.blocked);
  assert.deepEqual(
    [calls(), sent],
    [
      [recv(), send(3)],
      ["hello", "you"],
    ],
  );
});

test("the pump does not read an unreadable source, or for a full sink unless the bytes are discarded", () => {
  for (const [source, sink, expected] of [
    [{ readable: false }, {}, []],
    [{}, { writable: false }, []],
    [{ isDiscarding: true }, { writable: false }, [recv()]],
  ] as const) {
    const { run, calls, sent } = start({ reads: ["hello"], source, sink });
    assert.equal(run(), PUMP.blocked);
    assert.deepEqual([calls(), sent], [expected, []]);
  }
});

test("the end of a stream follows its last bytes, which wait in the kernel for the FIN", () => {
  const { run, calls } = start({ reads: ["hello"], source: { hungUp: true, finReported: true } });
  assert.equal(run(), PUMP.endOfStream);
  assert.deepEqual(calls(), [recv(), send(5, LAST)]);
  const empty = start({ reads: [0] });
  assert.equal(empty.run(), PUMP.endOfStream);
  assert.deepEqual([empty.calls(), empty.source.finRead], [[recv()], true]);
  assert.equal(empty.run(), PUMP.endOfStream);
  assert.deepEqual(empty.calls(), []);
});

test("an interrupted read is repeated; a failed read is the source's failure", () => {
  const { run, calls, pump } = start({ reads: [-ERRNO.EINTR, -ERRNO.ECONNRESET] });
  assert.equal(run(), PUMP.sourceFailed);
  assert.deepEqual([calls(), pump.errno], [[recv(), recv()], ERRNO.ECONNRESET]);
});

test("an interrupted send is repeated; a failed send is the sink's failure", () => {
  const { run, calls, pump, source } = start({ reads: ["hello"], sends: [-ERRNO.EINTR, -ERRNO.EINTR, -ERRNO.EPIPE] });
  assert.equal(run(), PUMP.sinkFailed);
  assert.deepEqual(
    [calls(), pump.errno, source.pending],
    [[recv(), send(5), send(5), send(5)], ERRNO.EPIPE, undefined],
  );
});

for (const [what, result, pending] of [
  ["takes a part", 2, "llo"],
  ["is full", -ERRNO.EAGAIN, "hello"],
] as const) {
  test(`bytes left over by a sink that ${what} are sent first once it is writable; nothing is read before`, () => {
    const { run, calls, source, sink, sent, events } = start({ reads: ["hello", "you"], sends: [result] });
    assert.equal(run(), PUMP.blocked);
    assert.deepEqual(
      [calls(), String(source.pending), sink.writable],
      [[recv(), send(5)], Buffer.from(pending).join(), false],
    );
    source.readable = true;
    assert.equal(run(), PUMP.blocked);
    assert.deepEqual(calls(), []);
    sink.writable = true;
    assert.equal(run(), PUMP.blocked);
    assert.deepEqual(calls(), [send(pending.length), recv(), send(3)]);
    assert.deepEqual(
      [sent.join(""), source.pending, events()],
      ["helloyou", undefined, [`${FROM} read 5`, `${FROM} read 3`]],
    );
  });
}

test("pending bytes that the sink does not accept stay pending", () => {
  const { run, calls, source, sink } = start({ sends: [2], source: { pending: Buffer.from("hello") } });
  assert.equal(run(), PUMP.blocked);
  assert.deepEqual([calls(), Buffer.from(source.pending ?? []).toString(), sink.writable], [[send(5)], "llo", false]);
  const failing = start({ sends: [-ERRNO.EPIPE], source: { pending: Buffer.from("hello") } });
  assert.deepEqual([failing.run(), failing.calls(), failing.pump.errno], [PUMP.sinkFailed, [send(5)], ERRNO.EPIPE]);
});

test("a full sink is armed once", () => {
  const { run, sink, source, events } = start({ reads: ["hello"], sends: [-ERRNO.EAGAIN], source: { isArmed: true } });
  sink.isArmed = false;
  run();
  assert.deepEqual(events(), [`${FROM} read 5`, `arm ${TO}`]);
  const armed = start({ reads: ["hello"], sends: [-ERRNO.EAGAIN], sink: { isArmed: true } });
  armed.run();
  assert.deepEqual([armed.events(), source.isFlushed], [[`${FROM} read 5`], false]);
});

test("the second write to a sink sets its TCP_NODELAY, the first and the third do not", () => {
  const { run, calls, source, sink } = start({ reads: ["a", "b", "c"], sink: { hasNoDelay: false } });
  const writes = [];
  for (let round = 0; round < 3; round += 1) {
    run();
    writes.push(calls().slice(1));
    source.readable = true;
  }
  assert.deepEqual(writes, [[send(1)], [`setsockopt ${TO} 6 1 = 1`, send(1)], [send(1)]]);
  assert.deepEqual([sink.hasNoDelay, sink.hasBeenWritten], [true, true]);
});

test("after a read that filled the buffer the next bytes are spliced, until a splice moves less than that", () => {
  const { run, calls, source, events } = start({
    reads: [16 * KIB, "tail"],
    spliced: [300_000, 16 * KIB, 16 * KIB - 1],
  });
  assert.equal(run(), PUMP.blocked);
  assert.deepEqual(calls(), [
    recv(),
    send(16 * KIB),
    into,
    outOf(300_000),
    into,
    outOf(16 * KIB),
    into,
    outOf(16 * KIB - 1),
    recv(),
    send(4),
  ]);
  const read = [16 * KIB, 300_000, 16 * KIB, 16 * KIB - 1, 4].flatMap((count, index) =>
    index > 0 && index < 4 ? [`${FROM} read ${count}`, "pipe with 0"] : [`${FROM} read ${count}`],
  );
  assert.deepEqual([events(), source.isBulk, source.pipe], [read, false, undefined]);
});

test("a read that leaves one byte free is followed by a copy", () => {
  const { run, calls, source } = start({ reads: [16 * KIB - 1], source: { hasUrgentData: true } });
  run();
  assert.deepEqual([calls().filter((call) => call.startsWith("splice")), source.isBulk], [[], false]);
});

test("urgent data is never spliced", () => {
  const { run, calls } = start({ reads: [5], source: { isBulk: true, hasUrgentData: true } });
  run();
  assert.deepEqual(calls(), [recv(), send(5), recv()]);
});

test("without a pipe, and for bytes that are discarded, a big read is copied", () => {
  for (const script of [{ isWithoutPipes: true }, { source: { isDiscarding: true } }]) {
    const { run, calls, source } = start({ reads: [IO_BYTES], ...script, source: { isBulk: true, ...script.source } });
    run();
    const expected = script.isWithoutPipes
      ? [recv(IO_BYTES), send(IO_BYTES), recv(IO_BYTES)]
      : [recv(IO_BYTES), recv(IO_BYTES)];
    assert.deepEqual([calls(), source.isBulk, source.readable], [expected, true, false]);
  }
});

for (const [what, result, expected] of [
  ["nothing to read", -ERRNO.EAGAIN, { is: PUMP.blocked, calls: [into] }],
  ["an error", -ERRNO.ECONNRESET, { is: PUMP.sourceFailed, calls: [into] }],
  ["an end that may be a mark of urgent data", 0, { is: PUMP.endOfStream, calls: [into, recv()] }],
] as const) {
  test(`a splice that finds ${what} releases its pipe`, () => {
    const { run, calls, events, source } = start({ spliced: [result], reads: [0], source: { isBulk: true } });
    assert.equal(run(), expected.is);
    assert.deepEqual([calls(), events(), source.pipe], [expected.calls, ["pipe with 0"], undefined]);
  });
}

test("bytes that the sink does not accept stay in the pipe, and are sent first", () => {
  const { run, calls, source, sink, pipe, events } = start({
    spliced: [100_000],
    unspliced: [40_000, -ERRNO.EINTR, -ERRNO.EAGAIN],
    source: { isBulk: true },
    sink: { hasNoDelay: false, hasBeenWritten: true },
  });
  assert.equal(run(), PUMP.blocked);
  assert.deepEqual(calls(), [into, `setsockopt ${TO} 6 1 = 1`, outOf(100_000), outOf(60_000), outOf(60_000)]);
  assert.deepEqual([source.pipe, pipe.bytes, sink.writable], [pipe, 60_000, false]);
  events();
  sink.writable = true;
  assert.equal(run(), PUMP.blocked);
  assert.deepEqual(
    [calls(), source.pipe, events()],
    [[outOf(60_000), into], undefined, ["pipe with 0", "pipe with 0"]],
  );
});

for (const [result, errno] of [
  [0, ERRNO.EPIPE],
  [-ERRNO.ECONNRESET, ERRNO.ECONNRESET],
] as const) {
  test(`a splice to the sink that returns ${result} is the sink's failure`, () => {
    const { run, pump } = start({ spliced: [100_000], unspliced: [result], source: { isBulk: true } });
    assert.deepEqual([run(), pump.errno], [PUMP.sinkFailed, errno]);
  });
}

test("after 1 MiB other connections are served", () => {
  const { run, calls } = start({ spliced: [MIB - 1], source: { isBulk: true } });
  assert.equal(run(), PUMP.blocked);
  assert.deepEqual(calls(), [into, outOf(MIB - 1), into]);
  const full = start({ spliced: [MIB, MIB], source: { isBulk: true } });
  assert.equal(full.run(), PUMP.hasMore);
  assert.deepEqual(full.calls(), [into, outOf(MIB)]);
  assert.equal(full.run(), PUMP.hasMore, "with a budget of its own each time");
});

test("pending bytes for a sink that is gone are dropped", () => {
  const { run, source, events, calls } = start({
    source: { isDiscarding: true, pending: Buffer.from("x"), readable: false },
  });
  source.pipe = { read: 1, write: 2, bytes: 5 };
  assert.equal(run(), PUMP.blocked);
  assert.deepEqual([calls(), events(), source.isFlushed], [[], ["pipe with 5"], true]);
});

test("release drops a stream's pending bytes and releases its pipe", () => {
  const { pump, source, events } = start({ source: { pending: Buffer.from("x") } });
  pump.release(source);
  assert.deepEqual([source.isFlushed, events()], [true, []]);
  source.pipe = { read: 1, write: 2, bytes: 5 };
  pump.release(source);
  assert.deepEqual([source.isFlushed, events()], [true, ["pipe with 5"]]);
});

test("a source that begins with the signature of a header is refused, and its bytes are not sent", () => {
  const seen: string[] = [];
  const { run, calls, source } = start({ reads: ["PROXY"] });
  Object.assign(source, {
    signature: {},
    beginsWithSignature: (bytes: Uint8Array) => {
      seen.push(Buffer.from(bytes).toString());
      return true;
    },
  });
  assert.equal(run(), PUMP.refused);
  assert.deepEqual([calls(), seen], [[recv()], ["PROXY"]]);
});
