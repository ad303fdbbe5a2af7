import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, recordingLibc } from "#test/fakes/recording-libc.ts";
import { addressBytes } from "../address.ts";
import { ERRNO, encodeSockaddr } from "./abi.ts";
import { LENGTH_OFFSET, LOCAL_ADDRESS_OFFSET, PEER_ADDRESS_OFFSET, WORDS_OFFSET } from "./memory.ts";
import {
  acceptFrom,
  closeWithReset,
  connectTo,
  errnoName,
  listenOn,
  localName,
  openTcpSocket,
  pendingError,
  setKeepalive,
  setNoDelay,
  throwOnError,
} from "./sockets.ts";

const AF_INET = 2;
const AF_INET6 = 10;
/** SOCK_STREAM, non-blocking, closed on exec. */
const STREAM = 0o2004001;
const PEER = `@${PEER_ADDRESS_OFFSET}`;
const LENGTH = `@${LENGTH_OFFSET}`;
const NO_DELAY = "6 1 = 1";
const REUSE_ADDRESS = "1 2 = 1";
const REUSE_PORT = "1 15 = 1";

const sockaddr = (address: string, port: number) => encodeSockaddr(addressBytes(address) ?? new Uint8Array(), port);

test("a call that failed throws with the name of its error", () => {
  assert.equal(throwOnError("bind", 0), 0);
  assert.throws(() => throwOnError("bind", -98), { name: "SystemError", message: "bind EADDRINUSE", errno: 98 });
  assert.equal(errnoName(111), "ECONNREFUSED");
});

test("options of a socket", () => {
  const { libc, taken } = recordingLibc();
  setNoDelay(libc, 7);
  assert.deepEqual(taken(), [`setsockopt 7 ${NO_DELAY}`]);
  setKeepalive(libc, 7, 0);
  assert.deepEqual(taken(), []);
  for (const [ms, seconds] of [
    [1, 1],
    [1_000, 1],
    [1_001, 2],
    [15_000, 15],
  ] as const) {
    setKeepalive(libc, 7, ms);
    const silence = `setsockopt 7 6 4 = ${seconds}`;
    assert.deepEqual(taken(), ["setsockopt 7 1 9 = 1", silence, "setsockopt 7 6 5 = 1", "setsockopt 7 6 6 = 10"]);
  }
});

test("a socket is opened for the address's family and connected to it", () => {
  const seen: string[] = [];
  const { libc, taken } = recordingLibc((call, _, { bytes }) => {
    if (call === "connect")
      seen.push(Buffer.from(bytes.slice(PEER_ADDRESS_OFFSET, PEER_ADDRESS_OFFSET + 28)).toString("hex"));
    return undefined;
  });
  const [v4, v6] = [sockaddr("192.0.2.7", 443), sockaddr("2001:db8::1", 443)];
  for (const address of [v4, v6]) connectTo(libc, openTcpSocket(libc, address), address);
  openTcpSocket(libc, new Uint8Array());
  assert.deepEqual(taken(), [
    `socket ${AF_INET} ${STREAM}`,
    `connect 100 ${PEER} 16`,
    `socket ${AF_INET6} ${STREAM}`,
    `connect 101 ${PEER} 28`,
    `socket ${AF_INET} ${STREAM}`,
  ]);
  assert.deepEqual(
    [seen[0]?.slice(0, 32), seen[1]],
    [v4, v6].map((bytes) => Buffer.from(bytes).toString("hex")),
  );
});

test("a client is accepted with room for its address", () => {
  const lengths: unknown[] = [];
  const { libc, taken } = recordingLibc((_, __, { words }) => {
    lengths.push(words[LENGTH_OFFSET >> 2]);
    return undefined;
  });
  assert.equal(acceptFrom(libc, 7), 100);
  assert.deepEqual([taken(), lengths], [[`accept4 7 ${PEER} ${LENGTH} ${0o2004000}`], [32]]);
});

test("pendingError returns the pending error of a socket, or the errno of a failed getsockopt", () => {
  const answers: Answer = (_, [fd], { words }) => {
    if (fd === 8) return -ERRNO.ENOBUFS;
    assert.equal(words[LENGTH_OFFSET >> 2], 4);
    words[WORDS_OFFSET >> 2] = fd === 7 ? 111 : 0;
    return 0;
  };
  const { libc, taken } = recordingLibc(answers);
  assert.deepEqual([pendingError(libc, 7), pendingError(libc, 8), pendingError(libc, 9)], [111, ERRNO.ENOBUFS, 0]);
  assert.equal(taken()[0], `getsockopt 7 1 4 @${WORDS_OFFSET} ${LENGTH}`);
});

test("localName returns a socket's address and port; undefined if it has none, or they cannot be read", () => {
  const lengths: unknown[] = [];
  const { libc, taken } = recordingLibc((_, [fd], { bytes, words }) => {
    lengths.push(words[LENGTH_OFFSET >> 2]);
    if (fd === 7) bytes.set(sockaddr("192.0.2.7", 443), LOCAL_ADDRESS_OFFSET);
    else bytes.fill(0, LOCAL_ADDRESS_OFFSET, LOCAL_ADDRESS_OFFSET + 32);
    return fd === 9 ? -1 : 0;
  });
  assert.deepEqual(localName(libc, 7), { address: Uint8Array.of(192, 0, 2, 7), port: 443 });
  assert.deepEqual([localName(libc, 8), localName(libc, 9)], [undefined, undefined]);
  assert.deepEqual([taken()[0], lengths], [`getsockname 7 @${LOCAL_ADDRESS_OFFSET} ${LENGTH}`, [32, 32, 32]]);
});

test("a close with a reset sets a linger time of 0 seconds", () => {
  const lingers: unknown[] = [];
  const { libc, memory, taken } = recordingLibc((call, values, { words }) => {
    if (call === "setsockopt") lingers.push([values[4], words[WORDS_OFFSET >> 2], words[(WORDS_OFFSET >> 2) + 1]]);
    return undefined;
  });
  memory.words.fill(9, WORDS_OFFSET >> 2);
  closeWithReset(libc, 7);
  assert.deepEqual([taken(), lingers], [["setsockopt 7 1 13 = 1", "close 7"], [[8, 1, 0]]]);
});

/** The addresses that sockets were bound to, in hex, and the port that the kernel chose. */
function binding(
  fail: (call: string, values: readonly number[], count: number) => number | undefined = () => undefined,
) {
  const bound: string[] = [];
  let count = 0;
  const rig = recordingLibc((call, values, { bytes }) => {
    count += 1;
    const failed = fail(call, values, count);
    if (failed !== undefined) return failed;
    const from = (offset: number) => Buffer.from(bytes.slice(offset, offset + (values[2] ?? 0))).toString("hex");
    if (call === "bind") bound.push(from(PEER_ADDRESS_OFFSET));
    if (call === "getsockname") bytes.set(sockaddr("127.0.0.1", 50_000), LOCAL_ADDRESS_OFFSET);
    return undefined;
  });
  return { ...rig, bound };
}
const hex = (address: string, port: number) => Buffer.from(sockaddr(address, port)).toString("hex");

test("a listener of two workers: the first socket is bound alone, then both share its port", () => {
  const { libc, taken, bound } = binding();
  assert.deepEqual(listenOn(libc, { address: "127.0.0.1", port: 0, count: 2, keepaliveMs: 15_000 }), [100, 101]);
  const keepalive = (fd: number) =>
    ["1 9 = 1", "6 4 = 15", "6 5 = 1", "6 6 = 10"].map((option) => `setsockopt ${fd} ${option}`);
  const name = `getsockname 100 @${LOCAL_ADDRESS_OFFSET} ${LENGTH}`;
  assert.deepEqual(taken(), [
    `socket ${AF_INET} ${STREAM}`,
    `setsockopt 100 ${REUSE_ADDRESS}`,
    `setsockopt 100 ${NO_DELAY}`,
    ...keepalive(100),
    `bind 100 ${PEER} 16`,
    `setsockopt 100 ${REUSE_PORT}`,
    name,
    `socket ${AF_INET} ${STREAM}`,
    `setsockopt 101 ${REUSE_ADDRESS}`,
    `setsockopt 101 ${REUSE_PORT}`,
    `setsockopt 101 ${NO_DELAY}`,
    ...keepalive(101),
    `bind 101 ${PEER} 16`,
    "listen 100 4096",
    "listen 101 4096",
  ]);
  assert.deepEqual(bound, [hex("127.0.0.1", 0), hex("127.0.0.1", 50_000)]);
});

test("a listener of one worker does not share its port", () => {
  const { libc, taken } = binding();
  assert.deepEqual(listenOn(libc, { address: "::1", port: 443, count: 1, keepaliveMs: 0 }), [100]);
  assert.deepEqual(taken(), [
    `socket ${AF_INET6} ${STREAM}`,
    `setsockopt 100 ${REUSE_ADDRESS}`,
    `setsockopt 100 ${NO_DELAY}`,
    `bind 100 ${PEER} 28`,
    `getsockname 100 @${LOCAL_ADDRESS_OFFSET} ${LENGTH}`,
    "listen 100 4096",
  ]);
});

test("if getsockname fails, the port is the requested one", () => {
  const { libc, bound } = binding((call) => (call === "getsockname" ? -1 : undefined));
  listenOn(libc, { address: "127.0.0.1", port: 443, count: 2, keepaliveMs: 0 });
  assert.deepEqual(bound, [hex("127.0.0.1", 443), hex("127.0.0.1", 443)]);
});

for (const [what, fails, message] of [
  ["socket", (call: string, _: readonly number[], count: number) => call === "socket" && count > 1, "socket EMFILE"],
  ["SO_REUSEADDR", (_: string, [fd, , name]: readonly number[]) => fd === 101 && name === 2, "setsockopt EMFILE"],
  [
    "SO_REUSEPORT of the first",
    (_: string, [fd, , name]: readonly number[]) => fd === 100 && name === 15,
    "setsockopt EMFILE",
  ],
  [
    "SO_REUSEPORT of the second",
    (_: string, [fd, , name]: readonly number[]) => fd === 101 && name === 15,
    "setsockopt EMFILE",
  ],
  ["bind", (call: string, [fd]: readonly number[]) => call === "bind" && fd === 101, "bind EMFILE"],
  ["listen", (call: string, [fd]: readonly number[]) => call === "listen" && fd === 101, "listen EMFILE"],
] as const) {
  test(`if ${what} fails, the listener fails and leaves no socket open`, () => {
    const { libc, taken } = binding((...call) => (fails(...call) ? -ERRNO.EMFILE : undefined));
    const options = { address: "127.0.0.1", port: 0, count: 2, keepaliveMs: 0 };
    assert.throws(() => listenOn(libc, options), { message, errno: ERRNO.EMFILE });
    const calls = taken();
    const opened = calls.filter((call) => call.startsWith("socket")).length - (what === "socket" ? 1 : 0);
    const closed = calls.filter((call) => call.startsWith("close"));
    assert.deepEqual(closed, ["close 100", "close 101"].slice(0, opened));
  });
}

for (const [address, errno, isFallback] of [
  ["::", ERRNO.EAFNOSUPPORT, true],
  ["::", ERRNO.EADDRNOTAVAIL, true],
  ["::", ERRNO.EMFILE, false],
  ["::1", ERRNO.EAFNOSUPPORT, false],
  ["::1", ERRNO.EADDRNOTAVAIL, false],
] as const) {
  test(`binding ${address} with error ${errnoName(errno)} ${isFallback ? "means all IPv4 addresses" : "fails"}`, () => {
    const { libc, bound } = binding((call, [family]) =>
      call === "socket" && family === AF_INET6 ? -errno : undefined,
    );
    const listening = () => listenOn(libc, { address, port: 443, count: 1, keepaliveMs: 0 });
    if (isFallback) assert.deepEqual([listening(), bound], [[100], [hex("0.0.0.0", 443)]]);
    else assert.throws(listening, { errno });
  });
}

test("an IPv4-mapped address is bound as IPv6", () => {
  const { libc, bound, taken } = binding();
  listenOn(libc, { address: "::ffff:192.0.2.7", port: 443, count: 1, keepaliveMs: 0 });
  assert.equal(taken()[0], `socket ${AF_INET6} ${STREAM}`);
  assert.equal(bound[0], "0a0001bb0000000000000000000000000000ffffc000020700000000");
});
