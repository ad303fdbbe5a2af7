import { EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, ERRNO, O_CLOEXEC } from "./abi.ts";
import type { Libc } from "./libc.ts";
import { EVENTS_OFFSET, MAX_EVENTS, WORDS_OFFSET } from "./memory.ts";
import { throwOnError } from "./sockets.ts";

interface EpollEntry {
  readonly fd: number;
  /**
   * The set assigns it and stores it next to fd in epoll's data. So an event of a closed descriptor never reaches one
   * that reuses its number.
   */
  serial: number;
}

/** An epoll set with an entry for each descriptor. */
export class EpollSet<Entry extends EpollEntry> {
  readonly #libc: Libc;
  readonly #epoll: number;
  /** Indexed by file descriptor. */
  readonly #entries: (Entry | undefined)[] = [];
  #lastSerial = 0;

  /** Throws SystemError if no file descriptor is left. */
  constructor(libc: Libc) {
    this.#libc = libc;
    this.#epoll = throwOnError("epoll_create1", libc.epollCreate(O_CLOEXEC));
  }

  /** Adds a descriptor. Returns 0 or a negative errno. Even then the entry is in the set until it is forgotten. */
  add(entry: Entry, events: number): number {
    this.#lastSerial = (this.#lastSerial + 1) | 0;
    entry.serial = this.#lastSerial;
    this.#entries[entry.fd] = entry;
    return this.#control(EPOLL_CTL_ADD, entry.fd, events, entry.serial);
  }

  /** Replaces the requested events of a descriptor. */
  modify(entry: Entry, events: number): void {
    throwOnError("epoll_ctl", this.#control(EPOLL_CTL_MOD, entry.fd, events, entry.serial));
  }

  /** Removes a descriptor that stays open. */
  remove(entry: Entry): void {
    throwOnError("epoll_ctl", this.#control(EPOLL_CTL_DEL, entry.fd, 0, 0));
    this.#entries[entry.fd] = undefined;
  }

  /** Call it before a descriptor is closed. The close removes it from the kernel's set. */
  forget(entry: Entry): void {
    if (this.#entries[entry.fd] === entry) this.#entries[entry.fd] = undefined;
  }

  /** Waits up to `timeoutMs` milliseconds. Returns the number of events, 0 after EINTR. Throws SystemError. */
  wait(timeoutMs: number): number {
    const count = this.#libc.epollWait(this.#epoll, this.#libc.memory.address + EVENTS_OFFSET, MAX_EVENTS, timeoutMs);
    return count === -ERRNO.EINTR ? 0 : throwOnError("epoll_wait", count);
  }

  /**
   * The entry of an event of the last `wait`. Undefined if the descriptor was closed since then: its number may be in
   * use again. Event handlers do not write to the memory that holds the events.
   */
  entryAt(index: number): Entry | undefined {
    const { words, epollEvent } = this.#libc.memory;
    const data = (EVENTS_OFFSET + index * epollEvent.size + epollEvent.data) >> 2;
    const entry = this.#entries[words[data] ?? 0];
    return entry !== undefined && entry.serial === words[data + 1] ? entry : undefined;
  }

  /** The events of that entry. */
  eventsAt(index: number): number {
    const { words, epollEvent } = this.#libc.memory;
    return words[(EVENTS_OFFSET + index * epollEvent.size) >> 2] ?? 0;
  }

  /** All entries, in the order of their descriptors. Entries may be added and removed during an iteration. */
  entries(): readonly (Entry | undefined)[] {
    return this.#entries;
  }

  close(): void {
    this.#libc.close(this.#epoll);
  }

  #control(operation: number, fd: number, events: number, serial: number): number {
    const { words, address, epollEvent } = this.#libc.memory;
    const data = (WORDS_OFFSET + epollEvent.data) >> 2;
    words[WORDS_OFFSET >> 2] = events;
    words[data] = fd;
    words[data + 1] = serial;
    return this.#libc.epollCtl(this.#epoll, operation, fd, address + WORDS_OFFSET);
  }
}
