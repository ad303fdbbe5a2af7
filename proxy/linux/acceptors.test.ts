import assert from "node:assert/strict";
import { test } from "node:test";
import { recordingLibc } from "#test/fakes/recording-libc.ts";
import { addressBytes } from "../address.ts";
import { parseHeader } from "../proxy-header-parse.ts";
import { EPOLLIN, ERRNO, encodeSockaddr } from "./abi.ts";
import { type Acceptor, Acceptors } from "./acceptors.ts";
import { ConnectionLimiter, newConnectionLimits } from "./connection-limiter.ts";
import { newCounters, readCounters } from "./counters.ts";
import { newDialFailures } from "./dial-failures.ts";
import { LOCAL_ADDRESS_OFFSET, PEER_ADDRESS_OFFSET } from "./memory.ts";
import { RefusalReporter } from "./refusal-reporter.ts";
import type { Reply, WorkerListener } from "./worker-messages.ts";

const LISTENER = 5;
const NO_CLIENT = -ERRNO.EAGAIN;
const sockaddr = (address: string, port: number) => encodeSockaddr(addressBytes(address) ?? new Uint8Array(), port);

function specOf(change: Partial<WorkerListener> = {}): WorkerListener {
  const named = { name: "web:443", target: "web", fd: LISTENER, localAddress: undefined, declaredPort: 443 };
  const upstream = { addresses: [], port: 8443, unresolved: undefined };
  const rest = { protocol: "v1", tlvs: undefined, counters: newCounters(), dialFailures: newDialFailures() } as const;
  return { ...named, ...upstream, ...rest, ...change } as WorkerListener;
}

/** The listeners of a worker. The test controls their clients. */
function start({ limits = { maxConnections: 5_000, maxConnectionsPerSource: 5_000 } } = {}) {
  const rig = {
    /** Results of accept4, followed by EAGAIN. A number from 0 on is a client. */
    backlog: [] as number[],
    source: "192.0.2.7",
    /** Undefined: getsockname fails. */
    local: "198.51.100.9" as string | undefined,
    /** Number of descriptors that are left. Undefined: any number. */
    left: undefined as number | undefined,
  };
  const { libc, taken } = recordingLibc((call, _, { bytes }) => {
    if (call === "accept4") {
      bytes.fill(0, PEER_ADDRESS_OFFSET, PEER_ADDRESS_OFFSET + 32);
      if (rig.source !== "") bytes.set(sockaddr(rig.source, 51_234), PEER_ADDRESS_OFFSET);
      return rig.backlog.shift() ?? NO_CLIENT;
    }
    if (call === "getsockname") {
      if (rig.local === undefined) return -1;
      bytes.set(sockaddr(rig.local, 15_443), LOCAL_ADDRESS_OFFSET);
    }
    if (call === "eventfd" && rig.left !== undefined) {
      rig.left -= 1;
      if (rig.left < 0) return -ERRNO.EMFILE;
    }
    return undefined;
  });
  const events: string[] = [];
  const added: Acceptor[] = [];
  const clients: { fd: number; slot: number; header: string | undefined; target: string }[] = [];
  const replies: Reply[] = [];
  const limiter = new ConnectionLimiter(newConnectionLimits(limits), limits);
  const acceptors = new Acceptors({
    libc,
    epoll: {
      add: (acceptor, wanted) => {
        events.push(`add ${acceptor.fd} ${wanted}`);
        added.push(acceptor);
        return 0;
      },
      modify: ({ fd }, wanted) => events.push(`modify ${fd} ${wanted}`),
      remove: ({ fd }) => events.push(`remove ${fd}`),
    },
    limiter,
    refusalReporter: new RefusalReporter((reply) => replies.push(reply)),
    onClient: ({ spec }, fd, slot, header) => {
      clients.push({ fd, slot, header: header && Buffer.from(header).toString("latin1"), target: spec.target });
    },
  });
  taken();
  acceptors.startRound(1_000);
  const acceptor = (index = -1): Acceptor => added.at(index) ?? assert.fail("no acceptor");
  /** All calls except accept4. */
  const handled = () => taken().filter((call) => !call.startsWith("accept4"));
  const accepts = () => taken().filter((call) => call.startsWith("accept4")).length;
  return {
    rig,
    acceptors,
    acceptor,
    limiter,
    clients,
    replies,
    taken,
    handled,
    accepts,
    events: () => events.splice(0),
  };
}

const clientsFrom = (first: number, count: number) => Array.from({ length: count }, (_, index) => first + index);

test("listeners are added, updated and removed; clients in the backlog of a removed one are still accepted", () => {
  const { rig, acceptors, acceptor, clients, events, accepts } = start();
  acceptors.update([specOf(), specOf({ name: "web:80", fd: 6 })]);
  assert.deepEqual(events(), [`add 5 ${EPOLLIN}`, `add 6 ${EPOLLIN}`]);
  const first = acceptor(0);
  const next = specOf({ declaredPort: 8443 });
  acceptors.update([next, specOf({ name: "web:80", fd: 6 })]);
  assert.deepEqual([events(), first.state.spec], [[], next]);
  rig.backlog = clientsFrom(200, 5_000);
  acceptors.update([next]);
  assert.deepEqual([events(), accepts(), clients.length], [["remove 6"], 4_096, 4_096]);
  rig.backlog = [];
  acceptors.update([specOf({ fd: 9 })]);
  assert.deepEqual(events(), ["remove 5", `add 9 ${EPOLLIN}`], "another socket of the same name");
});

test("a batch starts at one client and doubles in each round that finds more, up to 64", () => {
  const { rig, acceptors, acceptor, accepts } = start();
  acceptors.update([specOf()]);
  rig.backlog = clientsFrom(200, 1_000);
  const batches: number[] = [];
  for (let round = 0; round < 9; round += 1) {
    acceptors.startRound(1_000);
    acceptors.acceptBatch(acceptor());
    batches.push(accepts());
  }
  assert.deepEqual(batches, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
  acceptors.startRound(1_000);
  acceptors.startRound(1_000);
  acceptors.acceptBatch(acceptor());
  assert.equal(accepts(), 1, "a round without clients starts over");
});

test("a batch ends with the backlog, not at a client that has already left", () => {
  const { rig, acceptors, acceptor, clients, accepts } = start();
  acceptors.update([specOf()]);
  acceptor().batch = 32;
  rig.backlog = [200, -ERRNO.ECONNABORTED, -ERRNO.EPERM, 0, NO_CLIENT, 201];
  acceptors.acceptBatch(Object.assign(acceptor(), { round: 0, batch: 8 }));
  assert.deepEqual([clients.map(({ fd }) => fd), accepts()], [[200, 0], 5]);
});

for (const [what, change, local, header] of [
  ["v1", {}, "198.51.100.9", "PROXY TCP4 192.0.2.7 198.51.100.9 51234 443\r\n"],
  [
    "v1 with the listener's address",
    { localAddress: Uint8Array.of(10, 0, 0, 7) },
    undefined,
    "PROXY TCP4 192.0.2.7 10.0.0.7 51234 443\r\n",
  ],
  ["v1 of a client that is gone", {}, undefined, "PROXY TCP4 192.0.2.7 192.0.2.7 51234 443\r\n"],
  ["none", { protocol: "none" }, "198.51.100.9", undefined],
] as const) {
  test(`a client is admitted with its header: ${what}`, () => {
    const { rig, acceptors, acceptor, clients, limiter } = start();
    rig.local = local;
    acceptors.update([specOf(change)]);
    rig.backlog = [200];
    acceptors.acceptBatch(acceptor());
    const { slot, ...client } = clients[0] ?? assert.fail();
    assert.deepEqual(client, { fd: 200, target: "web", header });
    assert.deepEqual([slot >= 0, limiter.total()], [true, 1]);
  });
}

test("a header of version 2 has the TLVs of the listener", () => {
  const { rig, acceptors, acceptor, clients } = start();
  acceptors.update([specOf({ protocol: "v2", tlvs: { crc32c: true, uniqueId: true } })]);
  rig.backlog = [200];
  acceptors.acceptBatch(acceptor());
  const result = parseHeader(Buffer.from(clients[0]?.header ?? "", "latin1"));
  assert.ok(result.status === "complete");
  assert.deepEqual(
    [result.header.version, result.header.endpoints?.destination, result.header.tlvs.map(({ type }) => type)],
    [2, { address: "198.51.100.9", port: 443 }, [5, 3]],
  );
});

test("a client with an unknown address family is closed and not counted", () => {
  const { rig, acceptors, acceptor, clients, limiter, handled, replies } = start();
  acceptors.update([specOf()]);
  rig.source = "";
  rig.backlog = [200];
  acceptors.acceptBatch(acceptor());
  assert.deepEqual([handled(), clients, limiter.total(), replies], [["close 200"], [], 0, []]);
});

for (const [limit, limits] of [
  ["limit-total", { maxConnections: 1, maxConnectionsPerSource: 10 }],
  ["limit-source", { maxConnections: 10, maxConnectionsPerSource: 1 }],
] as const) {
  test(`a client over ${limit} is reset, counted and reported`, () => {
    const { rig, acceptors, acceptor, clients, handled, replies } = start({ limits });
    const spec = specOf();
    acceptors.update([spec]);
    rig.backlog = [200, 201];
    acceptors.acceptBatch(Object.assign(acceptor(), { batch: 2, round: 0 }));
    assert.equal(clients.length, 1);
    assert.deepEqual(handled().slice(-2), ["setsockopt 201 1 13 = 1", "close 201"]);
    assert.equal(readCounters([spec.counters]).refused[limit], 1);
    const fields = { target: "web", source: "192.0.2.7" };
    assert.deepEqual(replies, [{ kind: "refused", cause: limit, count: 1, fields }]);
  });
}

for (const errno of ["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"] as const) {
  test(`without resources (${errno}) a client is accepted with a reserved descriptor and reset; others follow`, () => {
    const { rig, acceptors, acceptor, clients, handled, replies, events } = start();
    const spec = specOf();
    acceptors.update([spec]);
    events();
    rig.backlog = [-ERRNO[errno], 200, 201];
    acceptors.acceptBatch(Object.assign(acceptor(), { batch: 1, round: 0 }));
    // A reserved descriptor is released for the client, and reserved again.
    const expected = ["close 102", "setsockopt 200 1 13 = 1", "close 200", `eventfd 0 ${0o2000000}`];
    assert.deepEqual(handled().slice(0, 4), expected);
    assert.deepEqual(
      clients.map(({ fd }) => fd),
      [201],
    );
    assert.equal(readCounters([spec.counters]).refused["local-limit"], 1);
    const fields = { listener: "web:443", err: `accept ${errno}` };
    assert.deepEqual([replies, events()], [[{ kind: "refused", cause: "local-limit", count: 1, fields }], []]);
  });
}

test("a listener pauses if a reserved descriptor does not help, and accepts again after 100 ms", () => {
  const { rig, acceptors, acceptor, accepts, events } = start();
  acceptors.update([specOf()]);
  events();
  rig.backlog = [-ERRNO.ENOBUFS, -ERRNO.ENOBUFS, 200];
  acceptors.acceptBatch(Object.assign(acceptor(), { batch: 8, round: 0 }));
  assert.deepEqual([accepts(), events()], [2, ["modify 5 0"]]);
  assert.deepEqual([acceptors.resumeAt, acceptor().pausedUntil], [1_100, 1_100]);
  acceptors.resume();
  assert.deepEqual(
    [events(), acceptors.resumeAt, acceptor().pausedUntil],
    [[`modify 5 ${EPOLLIN}`], Number.POSITIVE_INFINITY, 0],
  );
  acceptors.resume();
  assert.deepEqual(events(), [], "what did not pause is left alone");
});

test("if another worker takes the freed descriptor, the next clients are reset until it is reserved again", () => {
  const { rig, acceptors, acceptor, accepts, clients, events, limiter } = start();
  acceptors.update([specOf()]);
  events();
  rig.left = 0;
  rig.backlog = [-ERRNO.EMFILE, -ERRNO.EMFILE, 200];
  acceptors.acceptBatch(Object.assign(acceptor(), { batch: 2, round: 0 }));
  assert.deepEqual([accepts(), clients.length, events()], [4, 0, []]);
  assert.deepEqual([limiter.isOutOfFds(), acceptors.resumeAt], [true, 1_100], "they are to be reserved again");
  acceptors.startRound(1_100);
  acceptors.resume();
  assert.deepEqual([limiter.isOutOfFds(), acceptors.resumeAt], [true, 1_200], "none is left still");
  rig.left = undefined;
  acceptors.startRound(1_200);
  acceptors.resume();
  rig.backlog = [201];
  acceptors.acceptBatch(acceptor());
  assert.deepEqual([limiter.isOutOfFds(), acceptors.resumeAt], [false, Number.POSITIVE_INFINITY]);
  assert.deepEqual(
    clients.map(({ fd }) => fd),
    [201],
  );
});

test("a client whose descriptor another worker needs is reset", () => {
  const { rig, acceptors, acceptor, clients, handled, limiter } = start();
  const spec = specOf();
  acceptors.update([spec]);
  limiter.lendFds(1);
  rig.backlog = [200];
  acceptors.acceptBatch(acceptor());
  assert.deepEqual([clients, handled().slice(0, 2)], [[], ["setsockopt 200 1 13 = 1", "close 200"]]);
  assert.equal(readCounters([spec.counters]).refused["local-limit"], 1);
});

test("a listener pauses when no reserved descriptor is left; resume reserves descriptors again", () => {
  const { rig, acceptors, acceptor, events, taken } = start();
  acceptors.update([specOf()]);
  rig.left = 0;
  rig.backlog = Array.from({ length: 6 }, () => -ERRNO.EMFILE);
  acceptors.acceptBatch(Object.assign(acceptor(), { batch: 8, round: 0 }));
  assert.deepEqual(events().at(-1), "modify 5 0");
  rig.left = undefined;
  taken();
  acceptors.resume();
  assert.equal(taken().filter((call) => call.startsWith("eventfd")).length, 3);
});

test("resumeAt is the time of the paused listener that accepts again first", () => {
  const { rig, acceptors, acceptor } = start();
  acceptors.update([specOf(), specOf({ name: "web:80", fd: 6 })]);
  for (const [index, now] of [
    [0, 1_000],
    [1, 1_050],
  ] as const) {
    acceptors.startRound(now);
    rig.backlog = [-ERRNO.ENOBUFS, -ERRNO.ENOBUFS];
    acceptors.acceptBatch(acceptor(index));
  }
  assert.deepEqual([acceptors.resumeAt, acceptor(0).pausedUntil, acceptor(1).pausedUntil], [1_100, 1_100, 1_150]);
});

test("close closes the reserved descriptors", () => {
  const { acceptors, taken } = start();
  acceptors.close();
  assert.deepEqual(taken(), ["close 100", "close 101", "close 102"]);
});
