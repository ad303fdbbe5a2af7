import { type EpollEventLayout, SockaddrView } from "./abi.ts";

/*
 * The one piece of memory through which a thread and the kernel talk. It is allocated once and held as long as the thread's libc:
 * nothing that a system call may still write to is ever left to the garbage collector, and no call allocates.
 *
 *     0          IO                                EVENTS            ADDRESS    LOCAL_ADDRESS  LENGTH  WORDS
 *     | header ->|<- what is read from a socket    | epoll_event ... | sockaddr | sockaddr     | u32   | 4 x i32 |
 *
 * A PROXY header is put so that it ends where the first bytes read begin: both leave in one send.
 */
export const IO_BYTES = 64 * 1024;
/** More than the longest header: v2 over IPv6 with all options has 16 + 36 + 3 + 128 + 7 bytes. */
export const HEADER_ROOM = 256;
export const MAX_EVENTS = 256;
const LARGEST_EVENT_BYTES = 16;

export const IO = HEADER_ROOM;
export const EVENTS = IO + IO_BYTES;
export const ADDRESS = EVENTS + MAX_EVENTS * LARGEST_EVENT_BYTES;
export const ADDRESS_BYTES = 32;
/** The own end of a connection; the client's is at ADDRESS. */
export const LOCAL_ADDRESS = ADDRESS + ADDRESS_BYTES;
export const LENGTH = LOCAL_ADDRESS + ADDRESS_BYTES;
export const WORDS = LENGTH + 8;
export const MEMORY_BYTES = WORDS + 16;

export interface Memory {
  readonly bytes: Uint8Array;
  /** The same in words of the machine's order, which is little-endian. All offsets above are multiples of 4. */
  readonly words: Int32Array;
  /** Of the first byte, in this process. User space has 47 or 48 bits of addresses: a number holds them exactly. */
  readonly address: number;
  readonly epollEvent: EpollEventLayout;
  /** The addresses at ADDRESS and LOCAL_ADDRESS. */
  readonly peer: SockaddrView;
  readonly local: SockaddrView;
}

/** Lays the memory out over a buffer of MEMORY_BYTES that lies at `address`. */
export function layMemory(buffer: ArrayBuffer, address: number, epollEvent: EpollEventLayout): Memory {
  const bytes = new Uint8Array(buffer);
  return {
    bytes,
    words: new Int32Array(buffer),
    address,
    epollEvent,
    peer: new SockaddrView(bytes, ADDRESS),
    local: new SockaddrView(bytes, LOCAL_ADDRESS),
  };
}
