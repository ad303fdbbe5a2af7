import { getSystemErrorName } from "node:util";
import { addressBytes, mappedBytes } from "../address.ts";
import { LISTEN_BACKLOG } from "../engine.ts";
import {
  AF_INET,
  ERRNO,
  encodeSockaddr,
  IPPROTO_TCP,
  SO_ERROR,
  SO_KEEPALIVE,
  SO_LINGER,
  SO_REUSEADDR,
  SO_REUSEPORT,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
  TCP_KEEPCNT,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_NODELAY,
} from "./abi.ts";
import type { Libc } from "./libc.ts";
import { ADDRESS, ADDRESS_BYTES, LENGTH, LOCAL_ADDRESS, WORDS } from "./memory.ts";

/** Once a peer is silent: a probe a second, ten of them; what Node's own sockets do. */
const KEEPALIVE_INTERVAL_SECONDS = 1;
const KEEPALIVE_PROBES = 10;

const STREAM_FLAGS = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
const ACCEPT_FLAGS = SOCK_NONBLOCK | SOCK_CLOEXEC;

/** A failed system call. `errno` is positive. */
class SystemError extends Error {
  override readonly name = "SystemError";
  readonly errno: number;

  constructor(call: string, errno: number) {
    super(`${call} ${errnoName(errno)}`);
    this.errno = errno;
  }
}

/** The name of a positive errno: `ECONNREFUSED`. */
export function errnoName(errno: number): string {
  return getSystemErrorName(-errno);
}

/** The outcome of a call that has to succeed; throws SystemError otherwise. */
export function throwOnError(call: string, outcome: number): number {
  if (outcome < 0) throw new SystemError(call, -outcome);
  return outcome;
}

function setOption(libc: Libc, fd: number, level: number, name: number, value: number): number {
  libc.memory.words[WORDS >> 2] = value;
  return libc.setsockopt(fd, level, name, libc.memory.address + WORDS, 4);
}

/** A new stream socket for an address of this family: non-blocking; or a negative errno. */
export function openTcpSocket(libc: Libc, sockaddr: Uint8Array): number {
  return libc.socket(sockaddr[0] ?? AF_INET, STREAM_FLAGS);
}

/** Sends small writes at once. */
export function setNoDelay(libc: Libc, fd: number): void {
  setOption(libc, fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/** Probes a peer after `ms` of silence; 0: never. */
export function setKeepalive(libc: Libc, fd: number, ms: number): void {
  if (ms === 0) return;
  setOption(libc, fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(libc, fd, IPPROTO_TCP, TCP_KEEPIDLE, Math.max(1, Math.ceil(ms / 1000)));
  setOption(libc, fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS);
  setOption(libc, fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
}

/** Starts connecting; 0, or a negative errno. EINPROGRESS is the usual answer. */
export function connectTo(libc: Libc, fd: number, sockaddr: Uint8Array): number {
  libc.memory.bytes.set(sockaddr, ADDRESS);
  return libc.connect(fd, libc.memory.address + ADDRESS, sockaddr.length);
}

/** The error that waits in a socket, a positive errno, or 0; reading it takes it away. */
export function pendingError(libc: Libc, fd: number): number {
  const { words, address } = libc.memory;
  words[LENGTH >> 2] = 4;
  const outcome = libc.getsockopt(fd, SOL_SOCKET, SO_ERROR, address + WORDS, address + LENGTH);
  return outcome < 0 ? -outcome : (words[WORDS >> 2] ?? 0);
}

/** Takes the next client from a listener's queue; its address is in memory.peer. A descriptor, or a negative errno. */
export function acceptFrom(libc: Libc, listener: number): number {
  const { words, address } = libc.memory;
  words[LENGTH >> 2] = ADDRESS_BYTES;
  return libc.accept4(listener, address + ADDRESS, address + LENGTH, ACCEPT_FLAGS);
}

/** Where a socket is bound; undefined if that cannot be told. */
export function localName(libc: Libc, fd: number): { address: Uint8Array; port: number } | undefined {
  const { words, address, local } = libc.memory;
  words[LENGTH >> 2] = ADDRESS_BYTES;
  if (libc.getsockname(fd, address + LOCAL_ADDRESS, address + LENGTH) < 0) return undefined;
  const bytes = local.address();
  return bytes && { address: bytes, port: local.port() };
}

/** Closes with a reset: what is still to be sent is thrown away and the peer told so. */
export function closeWithReset(libc: Libc, fd: number): void {
  const { words, address } = libc.memory;
  // struct linger: on, for 0 seconds.
  words[WORDS >> 2] = 1;
  words[(WORDS >> 2) + 1] = 0;
  libc.setsockopt(fd, SOL_SOCKET, SO_LINGER, address + WORDS, 8);
  libc.close(fd);
}

/**
 * Binds `count` sockets to one address and port, and listens: several share its clients (SO_REUSEPORT). All or none; throws
 * SystemError. Without IPv6 in the kernel `::` cannot be bound; the IPv4 wildcard then means the same.
 */
export function listenOn(
  libc: Libc,
  wanted: { readonly address: string; readonly port: number; readonly count: number; readonly keepaliveMs: number },
): number[] {
  const literal = addressBytes(wanted.address) ?? new Uint8Array(16);
  const isIPv6 = wanted.address.includes(":");
  try {
    return listenAll(libc, isIPv6 ? mappedBytes(literal) : literal, wanted);
  } catch (error) {
    const hasNoIPv6 =
      error instanceof SystemError && (error.errno === ERRNO.EAFNOSUPPORT || error.errno === ERRNO.EADDRNOTAVAIL);
    if (wanted.address !== "::" || !hasNoIPv6) throw error;
    return listenAll(libc, new Uint8Array(4), wanted);
  }
}

function listenAll(
  libc: Libc,
  address: Uint8Array,
  { port, count, keepaliveMs }: { readonly port: number; readonly count: number; readonly keepaliveMs: number },
): number[] {
  const fds: number[] = [];
  try {
    let sockaddr = encodeSockaddr(address, port);
    for (let index = 0; index < count; index += 1) {
      const fd = throwOnError("socket", openTcpSocket(libc, sockaddr));
      fds.push(fd);
      throwOnError("setsockopt", setOption(libc, fd, SOL_SOCKET, SO_REUSEADDR, 1));
      // The first one binds without the wish to share: then a port that another process holds is not shared with it by accident.
      if (index > 0) throwOnError("setsockopt", setOption(libc, fd, SOL_SOCKET, SO_REUSEPORT, 1));
      // What a listener has set, the sockets that it accepts inherit.
      setNoDelay(libc, fd);
      setKeepalive(libc, fd, keepaliveMs);
      libc.memory.bytes.set(sockaddr, ADDRESS);
      throwOnError("bind", libc.bind(fd, libc.memory.address + ADDRESS, sockaddr.length));
      if (index === 0 && count > 1) throwOnError("setsockopt", setOption(libc, fd, SOL_SOCKET, SO_REUSEPORT, 1));
      if (index === 0) sockaddr = encodeSockaddr(address, localName(libc, fd)?.port ?? port);
    }
    for (const fd of fds) throwOnError("listen", libc.listen(fd, LISTEN_BACKLOG));
    return fds;
  } catch (error) {
    for (const fd of fds) libc.close(fd);
    throw error;
  }
}
