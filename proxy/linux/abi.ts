import { SwitchbackError } from "../../errors/errors.ts";

/*
 * Numbers and layouts of Linux's binary interface, as far as the relay uses it. All of them are the same on x86-64 and arm64
 * (include/uapi/asm-generic), save struct epoll_event: the kernel packs it on x86-64 only (include/uapi/linux/eventpoll.h).
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
export const AF_INET6 = 10;
export const SOCK_STREAM = 1;
export const SOCK_NONBLOCK = 0o4000;
export const SOCK_CLOEXEC = 0o2000000;
export const O_NONBLOCK = 0o4000;
export const O_CLOEXEC = 0o2000000;
export const MSG_NOSIGNAL = 0x4000;
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
export const EPOLLOUT = 0x4;
export const EPOLLERR = 0x8;
export const EPOLLHUP = 0x10;
export const EPOLLRDHUP = 0x2000;
/** Bit 31, as an unsigned number. */
export const EPOLLET = 0x80000000;

export const SPLICE_F_MOVE = 1;
export const SPLICE_F_NONBLOCK = 2;
export const F_SETPIPE_SZ = 1031;

/** Where the fields of struct epoll_event lie; `events` is at 0. */
export interface EpollEventLayout {
  readonly size: number;
  readonly data: number;
}

const EPOLL_EVENT: Readonly<Record<string, EpollEventLayout>> = {
  x64: { size: 12, data: 4 },
  arm64: { size: 16, data: 8 },
};

/** The layout on an architecture, named as process.arch names it. Throws `input-invalid` for one that is not known. */
export function epollEventLayout(arch: string): EpollEventLayout {
  const layout = EPOLL_EVENT[arch];
  if (layout === undefined) {
    throw new SwitchbackError("input-invalid", `no layout of epoll_event for ${arch}: known are x64 and arm64`);
  }
  return layout;
}

/** struct sockaddr_in, and struct sockaddr_in6: family, port, flow label, 16 bytes of address, scope. */
export const SOCKADDR_IN_BYTES = 16;
export const SOCKADDR_IN6_BYTES = 28;
const IN_ADDRESS = 4;
const IN6_ADDRESS = 8;

/** A socket address as the kernel takes it: the family in the machine's order (little-endian on both), the port in the network's. */
export function encodeSockaddr(address: Uint8Array, port: number): Uint8Array {
  const isIPv4 = address.length === 4;
  const bytes = new Uint8Array(isIPv4 ? SOCKADDR_IN_BYTES : SOCKADDR_IN6_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, isIPv4 ? AF_INET : AF_INET6, true);
  view.setUint16(2, port);
  bytes.set(address, isIPv4 ? IN_ADDRESS : IN6_ADDRESS);
  return bytes;
}

/** The address at `offset`, 4 or 16 bytes, a mapped one as IPv4; undefined for a family that is neither. It is a copy. */
export function decodeAddress(view: DataView, offset: number): Uint8Array | undefined {
  const family = view.getUint16(offset, true);
  const copy = (from: number, length: number): Uint8Array => {
    const start = view.byteOffset + offset + from;
    return new Uint8Array(view.buffer.slice(start, start + length));
  };
  if (family === AF_INET) return copy(IN_ADDRESS, 4);
  if (family !== AF_INET6) return undefined;
  return isMapped(view, offset + IN6_ADDRESS) ? copy(IN6_ADDRESS + 12, 4) : copy(IN6_ADDRESS, 16);
}

function isMapped(view: DataView, at: number): boolean {
  return view.getUint32(at) === 0 && view.getUint32(at + 4) === 0 && view.getUint32(at + 8) === 0xffff;
}

export function decodePort(view: DataView, offset: number): number {
  return view.getUint16(offset + 2);
}
