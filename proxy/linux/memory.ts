import { type EpollEventLayout, SockaddrView } from "./abi.ts";

/*
 * The memory that a thread shares with the kernel. It is allocated once and kept as long as the thread's libc. So no
 * memory that a system call may still write to is garbage collected, and no call allocates.
 *
 *     0          IO_OFFSET                    EVENTS_OFFSET     PEER_ADDRESS_.. LOCAL_ADDRESS_.. LENGTH_..  WORDS_..
 *     | header ->|<- bytes read from a socket | epoll_event ... | sockaddr     | sockaddr       | u32     | 4 x i32 |
 *
 * A PROXY header ends where the first bytes read begin, so that both leave in one send.
 */
export const IO_BYTES = 64 * 1024;
/** More than the longest header: v2 over IPv6 with all TLVs has 16 + 36 + 3 + 128 + 7 bytes. */
export const MAX_HEADER_BYTES = 256;
export const MAX_EVENTS = 256;
const LARGEST_EVENT_BYTES = 16;

export const IO_OFFSET = MAX_HEADER_BYTES;
export const EVENTS_OFFSET = IO_OFFSET + IO_BYTES;
export const PEER_ADDRESS_OFFSET = EVENTS_OFFSET + MAX_EVENTS * LARGEST_EVENT_BYTES;
export const ADDRESS_BYTES = 32;
/** The local address of a connection; the client's is at PEER_ADDRESS_OFFSET. */
export const LOCAL_ADDRESS_OFFSET = PEER_ADDRESS_OFFSET + ADDRESS_BYTES;
export const LENGTH_OFFSET = LOCAL_ADDRESS_OFFSET + ADDRESS_BYTES;
export const WORDS_OFFSET = LENGTH_OFFSET + 8;
export const MEMORY_BYTES = WORDS_OFFSET + 16;

export interface Memory {
  readonly bytes: Uint8Array;
  /** The same memory as 32-bit words in host byte order (little-endian). All offsets above are multiples of 4. */
  readonly words: Int32Array;
  /**
   * Address of the first byte in this process. User-space addresses have 47 or 48 bits, which a number holds exactly.
   */
  readonly address: number;
  readonly epollEvent: EpollEventLayout;
  /** The addresses at PEER_ADDRESS_OFFSET and LOCAL_ADDRESS_OFFSET. */
  readonly peer: SockaddrView;
  readonly local: SockaddrView;
}

/** Creates the views of a buffer of MEMORY_BYTES whose first byte is at `address`. */
export function createMemory(buffer: ArrayBuffer, address: number, epollEvent: EpollEventLayout): Memory {
  const bytes = new Uint8Array(buffer);
  return {
    bytes,
    words: new Int32Array(buffer),
    address,
    epollEvent,
    peer: new SockaddrView(bytes, PEER_ADDRESS_OFFSET),
    local: new SockaddrView(bytes, LOCAL_ADDRESS_OFFSET),
  };
}
