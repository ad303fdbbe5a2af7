import { SwitchbackError } from "#lib/errors/errors.ts";

/*
 * Constants and layouts of the Linux ABI that the relay uses. All are the same on x86-64 and arm64
 * (include/uapi/asm-generic), except struct epoll_event: the kernel packs it on x86-64 only
 * (include/uapi/linux/eventpoll.h).
 */
export const ERRNO = {
  EPERM: 1,
  EINTR: 4,
  EAGAIN: 11,
  ENOMEM: 12,
  ENFILE: 23,
  EMFILE: 24,
  EPIPE: 32,
  EAFNOSUPPORT: 97,
  EADDRNOTAVAIL: 99,
  ECONNABORTED: 103,
  ECONNRESET: 104,
  ENOBUFS: 105,
  EINPROGRESS: 115,
} as const;

export const AF_INET = 2;
const AF_INET6 = 10;
export const SOCK_STREAM = 1;
export const SOCK_NONBLOCK = 0o4000;
export const SOCK_CLOEXEC = 0o2000000;
export const O_NONBLOCK = 0o4000;
export const O_CLOEXEC = 0o2000000;
export const MSG_NOSIGNAL = 0x4000;
export const MSG_MORE = 0x8000;
export const SHUT_WR = 1;

export const SOL_SOCKET = 1;
export const SO_REUSEADDR = 2;
export const SO_ERROR = 4;
export const SO_KEEPALIVE = 9;
export const SO_LINGER = 13;
export const SO_REUSEPORT = 15;
export const IPPROTO_TCP = 6;
export const TCP_NODELAY = 1;
export const TCP_KEEPIDLE = 4;
export const TCP_KEEPINTVL = 5;
export const TCP_KEEPCNT = 6;

export const EPOLL_CTL_ADD = 1;
export const EPOLL_CTL_DEL = 2;
export const EPOLL_CTL_MOD = 3;
export const EPOLLIN = 0x1;
export const EPOLLPRI = 0x2;
export const EPOLLOUT = 0x4;
export const EPOLLERR = 0x8;
export const EPOLLHUP = 0x10;
export const EPOLLRDHUP = 0x2000;
/** Bit 31, as an unsigned number. */
export const EPOLLET = 0x80000000;

export const SPLICE_F_MOVE = 1;
export const SPLICE_F_NONBLOCK = 2;
export const F_SETPIPE_SZ = 1031;

/** Size of struct epoll_event and offset of `data`, in bytes; `events` is at 0. */
export interface EpollEventLayout {
  readonly size: number;
  readonly data: number;
}

const EPOLL_EVENT: Readonly<Record<string, EpollEventLayout>> = {
  x64: { size: 12, data: 4 },
  arm64: { size: 16, data: 8 },
};

/**
 * The layout for an architecture (a value of process.arch). Throws `input-invalid` if the architecture is not
 * supported.
 */
export function epollEventLayout(arch: string): EpollEventLayout {
  const layout = EPOLL_EVENT[arch];
  if (layout === undefined) {
    throw new SwitchbackError(
      "input-invalid",
      `epoll_event layout is unknown for ${arch}: supported are x64 and arm64`,
    );
  }
  return layout;
}

/** Sizes of struct sockaddr_in and of struct sockaddr_in6: family, port, flow label, 16 bytes of address, scope. */
const SOCKADDR_IN_BYTES = 16;
const SOCKADDR_IN6_BYTES = 28;
const IN_ADDRESS = 4;
const IN6_ADDRESS = 8;

/**
 * Encodes a sockaddr: the family in host byte order (little-endian on both architectures), the port in network byte
 * order.
 */
export function encodeSockaddr(address: Uint8Array, port: number): Uint8Array {
  const isIPv4 = address.length === 4;
  const bytes = new Uint8Array(isIPv4 ? SOCKADDR_IN_BYTES : SOCKADDR_IN6_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, isIPv4 ? AF_INET : AF_INET6, true);
  view.setUint16(2, port);
  bytes.set(address, isIPv4 ? IN_ADDRESS : IN6_ADDRESS);
  return bytes;
}

/** Reads the sockaddr at a fixed offset in memory without allocating. */
export class SockaddrView {
  readonly #bytes: Uint8Array;
  readonly #at: number;
  readonly #ipv4: Uint8Array;
  readonly #ipv6: Uint8Array;
  readonly #mapped: Uint8Array;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.#at = at;
    this.#ipv4 = bytes.subarray(at + IN_ADDRESS, at + IN_ADDRESS + 4);
    this.#ipv6 = bytes.subarray(at + IN6_ADDRESS, at + IN6_ADDRESS + 16);
    this.#mapped = bytes.subarray(at + IN6_ADDRESS + 12, at + IN6_ADDRESS + 16);
  }

  /**
   * The address: 4 or 16 bytes, an IPv4-mapped one as IPv4; undefined for any other family. The result is a view of the
   * memory, valid until the next system call that writes there.
   */
  address(): Uint8Array | undefined {
    const family = (this.#bytes[this.#at] ?? 0) | ((this.#bytes[this.#at + 1] ?? 0) << 8);
    if (family === AF_INET) return this.#ipv4;
    if (family !== AF_INET6) return undefined;
    return this.#isMapped() ? this.#mapped : this.#ipv6;
  }

  port(): number {
    return ((this.#bytes[this.#at + 2] ?? 0) << 8) | (this.#bytes[this.#at + 3] ?? 0);
  }

  #isMapped(): boolean {
    for (let index = 0; index < 10; index += 1) if (this.#ipv6[index] !== 0) return false;
    return this.#ipv6[10] === 0xff && this.#ipv6[11] === 0xff;
  }
}
