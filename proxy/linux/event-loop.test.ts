import assert from "node:assert/strict";
import { test } from "node:test";
import { recordingLibc } from "#test/fakes/recording-libc.ts";
import { addressBytes } from "../address.ts";
import { EPOLLIN, EPOLLOUT, EPOLLRDHUP, ERRNO, encodeSockaddr } from "./abi.ts";
import { newConnectionLimits } from "./connection-limiter.ts";
import { newCounters, readCounters } from "./counters.ts";
import { newDialFailures } from "./dial-failures.ts";
import { EventLoop } from "./event-loop.ts";
import { EVENTS_OFFSET, IO_OFFSET, PEER_ADDRESS_OFFSET, WORDS_OFFSET } from "./memory.ts";
import type { Command, Reply, WorkerListener } from "./worker-messages.ts";

const WAKE = 6;
const LISTENER = 5;
const [EPOLL, RESERVED] = [100, [101, 102, 103]];
const EVENT_WORDS = 3;
/** Events that the kernel reports in a round. */
type Round = readonly (readonly [fd: number, flags: number])[];

const LIMITS = {
  maxConnections: 10,
  maxConnectionsPerSource: 10,
  connectTimeoutMs: 5_000,
  idleTimeoutMs: 8_000,
  halfClosedMs: 0,
  keepaliveMs: 15_000,
  firstBytesMs: 50,
  dropGraceMs: 0,
};

function specOf(change: Partial<WorkerListener> = {}): WorkerListener {
  const sockaddr = encodeSockaddr(addressBytes("10.0.0.1") ?? new Uint8Array(), 443);
  return {
    name: "web:443",
    target: "web",
    fd: LISTENER,
    localAddress: Uint8Array.of(10, 0, 0, 7),
    declaredPort: 443,
    protocol: "v1",
    refusesClientHeaders: false,
    tlvs: undefined,
    addresses: [{ text: "10.0.0.1", sockaddr, isSelf: false }],
    port: 443,
    unresolved: undefined,
    counters: newCounters(),
    dialFailures: newDialFailures(),
    ...change,
  };
}

/** A loop on scripted system calls. Clients are 200, 201, ...; their upstreams are the next descriptors from 104 on. */
function start(change: Partial<typeof LIMITS> = {}) {
  const rig = { now: 1_000, clients: 0, commands: [] as Command[] };
  const limits = { ...LIMITS, ...change };
  const reads = new Map<number, (number | string)[]>();
  const serials = new Map<number, number>();
  const rounds: Round[] = [];
  const waits: number[] = [];
  let nextClient = 200;
  const { libc, taken } = recordingLibc((call, values, { bytes, words }) => {
    const [, , fd = -1] = values;
    if (call === "epollCtl") {
      serials.set(fd, words[(WORDS_OFFSET >> 2) + 2] ?? 0);
      return 0;
    }
    if (call === "epollWait") {
      waits.push(values[3] ?? -1);
      const round = rounds.shift() ?? [];
      for (const [index, [ready, flags]] of round.entries())
        words.set([flags, ready, serials.get(ready) ?? 0], (EVENTS_OFFSET >> 2) + index * EVENT_WORDS);
      return round.length;
    }
    if (call === "accept4") {
      if (rig.clients === 0) return -ERRNO.EAGAIN;
      rig.clients -= 1;
      bytes.set(encodeSockaddr(Uint8Array.of(192, 0, 2, 7), 51_234), PEER_ADDRESS_OFFSET);
      return nextClient++;
    }
    if (call === "recv") {
      const read = reads.get(values[0] ?? -1)?.shift() ?? -ERRNO.EAGAIN;
      if (typeof read === "number") return read;
      bytes.set(Buffer.from(read), IO_OFFSET);
      return read.length;
    }
    if (call === "send") return values[2];
    return call === "connect" ? -ERRNO.EINPROGRESS : undefined;
  });
  const replies: Reply[] = [];
  const loop = new EventLoop({
    libc,
    limits,
    connectionLimits: newConnectionLimits(limits),
    wake: WAKE,
    receive: () => rig.commands.shift(),
    reply: (reply) => replies.push(reply),
    clock: () => rig.now,
  });
  const round = (...events: Round) => {
    rounds.push(events);
    loop.runOnce(0);
  };
  /** Sends commands as the main thread does, and executes them. */
  const command = (...commands: Command[]) => {
    rig.commands.push(...commands);
    round([WAKE, EPOLLIN]);
  };
  /** Connects a client that has sent `hello`, and its upstream. Returns the upstream's descriptor. */
  const connect = (text = "hello", listener = LISTENER) => {
    taken();
    rig.clients = 1;
    reads.set(nextClient, [text]);
    round([listener, EPOLLIN]);
    const call = taken().find((one) => one.startsWith("connect "));
    return Number(call?.split(" ")[1] ?? assert.fail("nothing was dialled"));
  };
  const pass = (ms: number) => {
    rig.now += ms;
    round();
  };
  return { rig, loop, replies, taken, waits, rounds, reads, round, command, connect, pass };
}

const listen = (id: number, ...listeners: WorkerListener[]): Command => ({ kind: "listen", id, listeners });
const done = (id: number, count: number): Reply => ({ kind: "done", id, count });

test("run executes commands and answers each with its count, until the exit; then everything is closed", () => {
  const { rig, loop, replies, taken, rounds, waits } = start();
  rig.commands = [listen(1, specOf()), { kind: "cut", id: 2, listener: undefined }];
  rounds.push([[WAKE, EPOLLIN]], []);
  const exit: Round = [[WAKE, EPOLLIN]];
  rounds.push(exit);
  const shift = rounds.shift.bind(rounds);
  rounds.shift = () => {
    if (rounds[0] === exit) rig.commands = [{ kind: "exit", id: 3 }];
    return shift();
  };
  loop.run();
  assert.deepEqual(replies, [done(1, 0), done(2, 0), done(3, 0)]);
  assert.deepEqual(waits, [1_000, 1_000, 1_000]);
  const calls = taken();
  assert.deepEqual(
    calls.slice(0, 5).map((call) => call.split(" ")[0]),
    ["epollCreate", "eventfd", "eventfd", "eventfd", "epollCtl"],
  );
  assert.ok(calls.includes(`read ${WAKE} @${WORDS_OFFSET} 8`));
  assert.deepEqual(
    calls.slice(-4),
    [...RESERVED, EPOLL].map((fd) => `close ${fd}`),
  );
});

test("a loop does not start if its epoll set refuses the wake-up descriptor", () => {
  const { libc } = recordingLibc((call) => (call === "epollCtl" ? -ERRNO.ENOMEM : undefined));
  const options = {
    limits: LIMITS,
    connectionLimits: newConnectionLimits(LIMITS),
    wake: WAKE,
    receive: () => undefined,
  };
  assert.throws(() => new EventLoop({ ...options, libc, reply: () => {} }), { message: "epoll_ctl ENOMEM" });
});

test("a connection is active from its beginning to its end, and its bytes are counted by sender", () => {
  const { loop, command, connect, round, reads } = start();
  const spec = specOf();
  command(listen(1, spec));
  const upstream = connect();
  assert.equal(loop.openConnections, 1);
  reads.set(upstream, ["welcome", 0]);
  round([upstream, EPOLLIN | EPOLLRDHUP]);
  const stats = () => readCounters([spec.counters]);
  const { accepted, active, clientBytes, upstreamBytes } = stats();
  assert.deepEqual(
    { accepted, active, clientBytes, upstreamBytes },
    { accepted: 1, active: 1, clientBytes: 5, upstreamBytes: 7 },
  );
  reads.set(200, [0]);
  round([200, EPOLLIN | EPOLLRDHUP]);
  assert.deepEqual([loop.openConnections, stats().active, stats().accepted], [0, 0, 1]);
});

test("a cut resets the connections of one listener or of all, and counts them; their places are free again", () => {
  const { loop, replies, command, connect, round, rig } = start({ maxConnections: 3 });
  const [web, other] = [specOf(), specOf({ name: "other:443", target: "other", fd: 4 })];
  command(listen(1, web, other));
  connect();
  connect();
  connect("hello", 4);
  command({ kind: "cut", id: 2, listener: "web:443" }, { kind: "cut", id: 3, listener: "web:443" });
  assert.deepEqual(replies.slice(-2), [done(2, 2), done(3, 0)]);
  assert.deepEqual([readCounters([web.counters]).cut.drain, readCounters([other.counters]).cut.drain], [2, 0]);
  connect();
  rig.clients = 2;
  round([LISTENER, EPOLLIN]);
  round([LISTENER, EPOLLIN]);
  assert.deepEqual([loop.openConnections, readCounters([web.counters]).refused["limit-total"]], [3, 1]);
  command({ kind: "cut", id: 4, listener: undefined }, listen(5));
  assert.deepEqual(replies.slice(-2), [done(4, 3), done(5, 0)]);
});

test("the first dial that connects is reported, and later only a dial that follows a failure", () => {
  const { replies, command, connect } = start();
  const spec = specOf();
  command(listen(1, spec));
  connect();
  connect();
  const report = { listener: "web:443", connected: true, failures: [] };
  assert.deepEqual(replies.slice(1), [{ kind: "dial", report }]);
});

test("every failed dial is reported with its failures", () => {
  const { replies, command, rig, round } = start();
  command(listen(1, specOf({ addresses: [], unresolved: "dns-nxdomain" })));
  for (let times = 0; times < 2; times += 1) {
    rig.clients = 1;
    round([LISTENER, EPOLLIN]);
  }
  const failures = [{ address: undefined, cause: "dns-nxdomain", detail: "no address of the upstream is known" }];
  const report = { listener: "web:443", connected: false, failures };
  assert.deepEqual(replies.slice(1), [
    { kind: "dial", report },
    { kind: "dial", report },
  ]);
});

test("refusals after the first are reported together 100 ms later, or when the loop is abandoned", () => {
  const { replies, command, rig, round, pass, loop } = start({ maxConnections: 1 });
  const spec = specOf();
  command(listen(1, spec));
  rig.clients = 4;
  for (let times = 0; times < 4; times += 1) round([LISTENER, EPOLLIN]);
  const refused = (count: number) => ({
    kind: "refused",
    cause: "limit-total",
    count,
    fields: { target: "web", source: "192.0.2.7" },
  });
  const reports = () => replies.filter(({ kind }) => kind === "refused");
  assert.deepEqual(reports(), [refused(1)]);
  pass(99);
  assert.equal(reports().length, 1);
  pass(1);
  assert.deepEqual(reports(), [refused(1), refused(2)]);
  rig.clients = 2;
  round([LISTENER, EPOLLIN]);
  round([LISTENER, EPOLLIN]);
  loop.abandon();
  assert.deepEqual(reports().slice(2), [refused(1), refused(1)]);
  assert.deepEqual([loop.openConnections, readCounters([spec.counters]).cut.drain], [0, 1]);
});

for (const [what, limits, expected] of [
  ["nothing to do", {}, 1_000],
  ["a listener", { listens: true }, 1_000],
  ["a connect that may take 300.5 ms", { listens: true, client: "", connectTimeoutMs: 300.5 }, 301],
  ["an idle timeout of 2 s", { listens: true, client: "hello", idleTimeoutMs: 2_000 }, 500],
  ["a half-closed timeout of 1 s", { listens: true, client: "hello", halfClosedMs: 1_000 }, 250],
  ["no idle timeout", { listens: true, client: "hello", idleTimeoutMs: 0 }, 1_000],
] as const) {
  test(`with ${what} the loop waits ${expected} ms at most`, () => {
    const {
      listens = false,
      client,
      ...change
    } = { listens: false, client: undefined, ...limits } as {
      listens?: boolean;
      client?: string;
    };
    const { loop, command, rig, rounds, waits, reads, round } = start(change);
    if (listens) command(listen(1, specOf()));
    if (client !== undefined) {
      if (client !== "") reads.set(200, [client]);
      rig.clients = 1;
      round([LISTENER, EPOLLIN]);
    }
    waits.length = 0;
    rig.commands = [{ kind: "exit", id: 9 }];
    rounds.push([[WAKE, EPOLLIN]]);
    loop.run();
    assert.deepEqual(waits, [expected]);
  });
}

test("with a connect timeout of 0, a connect may take any time", () => {
  const { rig, loop, command, round, pass } = start({ connectTimeoutMs: 0 });
  command(listen(1, specOf()));
  rig.clients = 1;
  round([LISTENER, EPOLLIN]);
  pass(3_600_000);
  assert.equal(loop.openConnections, 1);
});

test("a connection with more to do is served in the next round, without a wait", () => {
  const { loop, command, connect, reads, rounds, rig, waits } = start();
  command(listen(1, specOf()));
  connect();
  const kib = (count: number) => "x".repeat(count * 1024);
  reads.set(200, [kib(16), ...Array.from({ length: 40 }, () => kib(64))]);
  waits.length = 0;
  rounds.push([[200, EPOLLIN]]);
  loop.runOnce(7);
  rig.commands = [{ kind: "exit", id: 9 }];
  rounds.push([], [[WAKE, EPOLLIN]]);
  loop.run();
  assert.deepEqual(waits.slice(0, 2), [7, 0]);
  assert.ok((reads.get(200)?.length ?? 40) < 20, "its share in each of the two rounds");
});

test("an idle connection is cut after its timeout, counted in sweeps; the first sweep sets keepalive", () => {
  const { command, connect, pass, reads, round, taken, loop } = start();
  const spec = specOf();
  command(listen(1, spec));
  const upstream = connect();
  const cut = () => readCounters([spec.counters]).cut["idle-timeout"];
  pass(999);
  assert.deepEqual(
    taken().filter((call) => call.startsWith("setsockopt")),
    [],
  );
  pass(1);
  assert.equal(taken().filter((call) => call === `setsockopt ${upstream} 1 9 = 1`).length, 1);
  for (let second = 2; second <= 5; second += 1) pass(1_000);
  reads.set(200, ["more"]);
  round([200, EPOLLIN]);
  for (let second = 6; second <= 14; second += 1) pass(1_000);
  assert.deepEqual([cut(), loop.openConnections], [0, 1]);
  pass(1_000);
  assert.deepEqual([cut(), loop.openConnections], [1, 0]);
});

test("a half-closed connection ends after its own timeout", () => {
  const { command, connect, pass, reads, round, loop } = start({ idleTimeoutMs: 0, halfClosedMs: 4_000 });
  const spec = specOf();
  command(listen(1, spec));
  const upstream = connect();
  connect();
  reads.set(upstream, [0]);
  round([upstream, EPOLLIN | EPOLLRDHUP]);
  for (let second = 1; second <= 5; second += 1) pass(1_000);
  const cut = () => readCounters([spec.counters]).cut["half-closed-timeout"];
  assert.deepEqual([cut(), loop.openConnections], [0, 2]);
  pass(1_000);
  assert.deepEqual([cut(), loop.openConnections], [1, 1]);
  for (let second = 1; second <= 60; second += 1) pass(1_000);
  assert.equal(loop.openConnections, 1);
});

test("sweeps stop while there are no connections, and start again with the next one", () => {
  const { command, connect, pass, taken } = start();
  command(listen(1, specOf()));
  connect();
  pass(600);
  command({ kind: "cut", id: 2, listener: undefined });
  pass(400);
  pass(10_500);
  const upstream = connect();
  taken();
  pass(999);
  assert.deepEqual(
    taken().filter((call) => call.startsWith("setsockopt")),
    [],
  );
  pass(1);
  assert.ok(taken().includes(`setsockopt ${upstream} 1 9 = 1`));
});

test("a timeout fires in the round in which it is due", () => {
  const { command, rig, round, pass, taken } = start();
  command(listen(1, specOf()));
  rig.clients = 1;
  round([LISTENER, EPOLLIN]);
  const upstream = Number(
    taken()
      .find((call) => call.startsWith("connect "))
      ?.split(" ")[1],
  );
  round([upstream, EPOLLOUT]);
  taken();
  pass(49);
  assert.deepEqual(
    taken().filter((call) => call.startsWith("send")),
    [],
  );
  pass(1);
  assert.equal(taken().filter((call) => call.startsWith(`send ${upstream} `)).length, 1);
});
