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
import { ADDRESS_BYTES, LENGTH_OFFSET, LOCAL_ADDRESS_OFFSET, PEER_ADDRESS_OFFSET, WORDS_OFFSET } from "./memory.ts";

/** Keepalive probes of a silent peer: one per second, ten in total, as for Node's sockets. */
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

/** Returns the result of a call that must not fail. Throws SystemError if it is negative. */
export function throwOnError(call: string, result: number): number {
  if (result < 0) throw new SystemError(call, -result);
  return result;
}

function setOption(libc: Libc, fd: number, level: number, name: number, value: number): number {
  libc.memory.words[WORDS_OFFSET >> 2] = value;
  return libc.setsockopt(fd, level, name, libc.memory.address + WORDS_OFFSET, 4);
}

/** Opens a non-blocking stream socket for the family of an address. Returns a descriptor or a negative errno. */
export function openTcpSocket(libc: Libc, sockaddr: Uint8Array): number {
  return libc.socket(sockaddr[0] ?? AF_INET, STREAM_FLAGS);
}

/** Sets TCP_NODELAY. */
export function setNoDelay(libc: Libc, fd: number): void {
  setOption(libc, fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/** Sets TCP keepalive with the first probe after `ms` milliseconds of silence; 0: no keepalive. */
export function setKeepalive(libc: Libc, fd: number, ms: number): void {
  if (ms === 0) return;
  setOption(libc, fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(libc, fd, IPPROTO_TCP, TCP_KEEPIDLE, Math.max(1, Math.ceil(ms / 1000)));
  setOption(libc, fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS);
  setOption(libc, fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
}

/** Starts to connect. Returns 0 or a negative errno, usually EINPROGRESS. */
export function connectTo(libc: Libc, fd: number, sockaddr: Uint8Array): number {
  libc.memory.bytes.set(sockaddr, PEER_ADDRESS_OFFSET);
  return libc.connect(fd, libc.memory.address + PEER_ADDRESS_OFFSET, sockaddr.length);
}

/** Reads and clears the pending error of a socket: a positive errno, or 0. */
export function pendingError(libc: Libc, fd: number): number {
  const { words, address } = libc.memory;
  words[LENGTH_OFFSET >> 2] = 4;
  const result = libc.getsockopt(fd, SOL_SOCKET, SO_ERROR, address + WORDS_OFFSET, address + LENGTH_OFFSET);
  return result < 0 ? -result : (words[WORDS_OFFSET >> 2] ?? 0);
}

/** Accepts the next client of a listener; its address is in memory.peer. Returns a descriptor or a negative errno. */
export function acceptFrom(libc: Libc, listener: number): number {
  const { words, address } = libc.memory;
  words[LENGTH_OFFSET >> 2] = ADDRESS_BYTES;
  return libc.accept4(listener, address + PEER_ADDRESS_OFFSET, address + LENGTH_OFFSET, ACCEPT_FLAGS);
}

/** The local address and port of a socket. Undefined if getsockname fails. */
export function localName(libc: Libc, fd: number): { address: Uint8Array; port: number } | undefined {
  const { words, address, local } = libc.memory;
  words[LENGTH_OFFSET >> 2] = ADDRESS_BYTES;
  if (libc.getsockname(fd, address + LOCAL_ADDRESS_OFFSET, address + LENGTH_OFFSET) < 0) return undefined;
  const bytes = local.address();
  return bytes && { address: bytes, port: local.port() };
}

/** Closes a socket with a reset and discards unsent bytes. */
export function closeWithReset(libc: Libc, fd: number): void {
  const { words, address } = libc.memory;
  // struct linger: on, for 0 seconds.
  words[WORDS_OFFSET >> 2] = 1;
  words[(WORDS_OFFSET >> 2) + 1] = 0;
  libc.setsockopt(fd, SOL_SOCKET, SO_LINGER, address + WORDS_OFFSET, 8);
  libc.close(fd);
}

/**
 * Binds `count` sockets to one address and port and listens; they share its clients (SO_REUSEPORT). If one fails,
 * closes all and throws SystemError. Without IPv6 in the kernel `::` cannot be bound; the IPv4 wildcard is used then.
 */
export function listenOn(
  libc: Libc,
  options: { readonly address: string; readonly port: number; readonly count: number; readonly keepaliveMs: number },
): number[] {
  const literal = addressBytes(options.address) ?? new Uint8Array(16);
  const isIPv6 = options.address.includes(":");
  try {
    return listenAll(libc, isIPv6 ? mappedBytes(literal) : literal, options);
  } catch (error) {
    const isIPv6Missing =
      error instanceof SystemError && (error.errno === ERRNO.EAFNOSUPPORT || error.errno === ERRNO.EADDRNOTAVAIL);
    if (options.address !== "::" || !isIPv6Missing) throw error;
    return listenAll(libc, new Uint8Array(4), options);
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
      // The first socket binds without SO_REUSEPORT, so that a port of another process is not shared with it by
      // accident.
      if (index > 0) throwOnError("setsockopt", setOption(libc, fd, SOL_SOCKET, SO_REUSEPORT, 1));
      // Accepted sockets inherit these options.
      setNoDelay(libc, fd);
      setKeepalive(libc, fd, keepaliveMs);
      libc.memory.bytes.set(sockaddr, PEER_ADDRESS_OFFSET);
      throwOnError("bind", libc.bind(fd, libc.memory.address + PEER_ADDRESS_OFFSET, sockaddr.length));
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
