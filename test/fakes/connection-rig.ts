import { addressBytes } from "#proxy/address.ts";
import { NEXT_ADDRESS_MS } from "#proxy/engine.ts";
import { ERRNO, encodeSockaddr } from "#proxy/linux/abi.ts";
import { LinuxConnection } from "#proxy/linux/connection.ts";
import { newCounters, readCounters } from "#proxy/linux/counters.ts";
import { newDialFailures } from "#proxy/linux/dial-failures.ts";
import { ListenerState } from "#proxy/linux/listener-state.ts";
import { IO_OFFSET, WORDS_OFFSET } from "#proxy/linux/memory.ts";
import { Pump } from "#proxy/linux/pump.ts";
import type { RelayContext } from "#proxy/linux/relay-context.ts";
import { ARMED_EVENTS, QUIET_EVENTS } from "#proxy/linux/socket-state.ts";
import { type TimeoutEntry, TimeoutQueue } from "#proxy/linux/timeout-queue.ts";
import { recordingLibc } from "./recording-libc.ts";

export const CLIENT = 7;
/** The descriptors of the first and of the second upstream. */
export const UPSTREAM = 100;
export const SECOND = 101;
export const HEADER = Buffer.from("PROXY\r\n");
/** The system calls of a reset: a socket option and a close. */
export const reset = (fd: number): string[] => [`setsockopt ${fd} 1 13 = 1`, `close ${fd}`];

interface Script {
  readonly addresses?: readonly string[];
  readonly refusesClientHeaders?: boolean;
  readonly keepaliveMs?: number;
  readonly connectTimeoutMs?: number;
}

/**
 * A connection of the linux engine with scripted system calls. The script says what each descriptor reads and
 * accepts, and how connects begin and end. `calls` returns the system calls since the last time. `events` returns
 * what the connection told its loop since the last time.
 */
export function connectionRig({
  addresses = ["10.0.0.1"],
  refusesClientHeaders = false,
  keepaliveMs = 15_000,
  connectTimeoutMs = 5_000,
}: Script = {}) {
  const rig = {
    now: 1_000,
    /** Results of the next reads, by descriptor: a text means its bytes. After them, reads return EAGAIN. */
    reads: new Map<number, (number | string)[]>(),
    /** Results of the next sends, by descriptor. After them, a send accepts all bytes. */
    sends: new Map<number, number[]>(),
    /** Results of the next connects. After them, a connect returns EINPROGRESS. */
    connects: [] as number[],
    /** Results of the next socket calls. After them, a call returns a descriptor. */
    sockets: [] as number[],
    /** The pending error that sockets report. */
    error: 0,
    /** Descriptors that the epoll set refuses. */
    unregistrable: new Set<number>(),
  };
  const sent: string[] = [];
  const { libc, memory, taken } = recordingLibc((call, values, { bytes, words, address }) => {
    const [fd = -1, from = 0, length = 0] = values;
    if (call === "recv") {
      const read = rig.reads.get(fd)?.shift() ?? -ERRNO.EAGAIN;
      if (typeof read === "number") return read;
      bytes.set(Buffer.from(read), IO_OFFSET);
      return read.length;
    }
    if (call === "send") {
      const count = rig.sends.get(fd)?.shift() ?? length;
      if (count > 0) sent.push(`${fd}: ${Buffer.from(bytes.slice(from - address, from - address + count)).toString()}`);
      return count;
    }
    if (call === "getsockopt") words[WORDS_OFFSET >> 2] = rig.error;
    if (call === "connect") return rig.connects.shift() ?? -ERRNO.EINPROGRESS;
    return call === "socket" ? rig.sockets.shift() : undefined;
  });
  const events: string[] = [];
  const shown = (flags: number): string =>
    flags === QUIET_EVENTS ? "quiet" : flags === ARMED_EVENTS ? "armed" : `${flags}`;
  const queue = (ms: number, expire: (connection: LinuxConnection) => void): TimeoutQueue =>
    new TimeoutQueue(ms, (entry: TimeoutEntry) => expire(entry as LinuxConnection));
  const context: RelayContext = {
    libc,
    pipes: { acquire: () => undefined, release: () => {} } as never,
    get pump(): Pump {
      return pump;
    },
    get now(): number {
      return rig.now;
    },
    limits: {
      maxConnections: 10,
      maxConnectionsPerSource: 10,
      connectTimeoutMs,
      idleTimeoutMs: 0,
      halfClosedMs: 0,
      keepaliveMs,
      firstBytesMs: 50,
      dropGraceMs: 0,
    },
    connectTimeouts: queue(connectTimeoutMs, (connection) => connection.connectTimedOut()),
    nextAddressTimeouts: queue(NEXT_ADDRESS_MS, (connection) => connection.connectTimedOut()),
    firstBytesTimeouts: queue(50, (connection) => connection.firstBytesTimedOut()),
    lingerTimeouts: queue(30_000, (connection) => connection.lingerTimedOut()),
    register: ({ fd }, flags) => {
      events.push(`register ${fd} ${shown(flags)}`);
      return !rig.unregistrable.has(fd);
    },
    unregister: ({ fd }) => void events.push(`unregister ${fd}`),
    requeue: () => void events.push("requeue"),
    dialEnded: (_, { failures }, connected) => {
      events.push(connected ? "connected" : `not connected: ${failures.map(({ cause }) => cause).join()}`);
    },
    clientHeaderRefused: () => void events.push("client header refused"),
    isOutOfFds: () => false,
    outOfResources: (_, detail) => void events.push(`out of resources: ${detail}`),
    connectionClosed: () => void events.push("closed"),
    arm: ({ fd }) => void events.push(`arm ${fd}`),
    bytesRead: ({ fd }, count) => void events.push(`${fd} read ${count}`),
  };
  const pump = new Pump(context);
  const listener = new ListenerState({
    name: "web:443",
    target: "web",
    fd: 5,
    localAddress: undefined,
    declaredPort: 443,
    protocol: "v1",
    refusesClientHeaders,
    tlvs: undefined,
    addresses: addresses.map((text) => {
      return { text, sockaddr: encodeSockaddr(addressBytes(text) ?? new Uint8Array(), 443), isSelf: false };
    }),
    port: 443,
    unresolved: undefined,
    counters: newCounters(),
    dialFailures: newDialFailures(),
  });
  const connection = new LinuxConnection(context, listener, CLIENT, 3);
  const queues = [
    context.connectTimeouts,
    context.nextAddressTimeouts,
    context.firstBytesTimeouts,
    context.lingerTimeouts,
  ];
  return {
    rig,
    memory,
    context,
    connection,
    listener,
    sent: () => sent.splice(0),
    calls: taken,
    events: () => events.splice(0),
    counters: () => readCounters([listener.spec.counters]),
    /** Milliseconds until the connection's timeout; undefined if it has none. */
    timeout: () => (connection.queue === undefined ? undefined : connection.deadline - rig.now),
    pass: (ms: number) => {
      rig.now += ms;
      for (const one of queues) one.expire(rig.now);
    },
    reads: (fd: number, ...results: (number | string)[]) => void rig.reads.set(fd, results),
    sends: (fd: number, ...results: number[]) => void rig.sends.set(fd, results),
  };
}
