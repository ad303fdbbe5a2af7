import type { EngineLimits } from "../engine.ts";

/*
 * The connection limits, total and per source, which all workers share: an open-addressing hash table of sources in
 * shared memory.
 *
 *     lock | total | descriptors lent | - | slot 0: address (4 words), count, state | slot 1 | ...
 *
 * A source keeps its slot while it has connections, so a connection only stores the slot's number. A vacated slot
 * becomes a tombstone, because lookups of other sources may have probed past it. It becomes empty once the next slot is
 * empty. There are at least twice as many slots as connections. A spin lock guards the table, for well under a
 * microsecond at a time.
 */
const LOCK = 0;
const TOTAL = 1;
const LENT_FDS = 2;
const HEADER_WORDS = 4;
const SLOT_WORDS = 6;
const COUNT_OFFSET = 4;
const STATE_OFFSET = 5;
/** Word 2 of an IPv4 address's key, as in its IPv6 form: ::ffff:a.b.c.d. */
const MAPPED = 0xffff0000 | 0;
const EMPTY = 0;
const USED = 1;
const TOMBSTONE = 2;
/** Far more than any holder needs. If a thread dies with the lock, the others fail instead of hanging. */
const MAX_LOCK_TRIES = 1_000_000_000;

type Limits = Pick<EngineLimits, "maxConnections" | "maxConnectionsPerSource">;

/** Results of `admit` when a limit is reached. Slots are numbered from 0. */
export const LIMIT_TOTAL = -1;
export const LIMIT_SOURCE = -2;

/** Shared memory for a ConnectionLimiter in each worker. */
export function newConnectionLimits({ maxConnections }: Limits): SharedArrayBuffer {
  const slots = 2 ** Math.ceil(Math.log2(2 * maxConnections + 2));
  return new SharedArrayBuffer((HEADER_WORDS + slots * SLOT_WORDS) * Int32Array.BYTES_PER_ELEMENT);
}

/** Counts open connections against the limits. One instance per thread, all over the same shared memory. */
export class ConnectionLimiter {
  readonly #words: Int32Array;
  readonly #limits: Limits;
  readonly #mask: number;
  /** The source being looked up, as four words. */
  readonly #key = new Int32Array(4);

  constructor(block: SharedArrayBuffer, limits: Limits) {
    this.#words = new Int32Array(block);
    this.#limits = limits;
    this.#mask = (this.#words.length - HEADER_WORDS) / SLOT_WORDS - 1;
  }

  /**
   * Admits a connection from a source (4 or 16 bytes). Returns the slot to pass to `release`, or LIMIT_TOTAL or
   * LIMIT_SOURCE.
   */
  admit(source: Uint8Array): number {
    const isIPv4 = source.length === 4;
    this.#key[0] = isIPv4 ? 0 : wordOf(source, 0);
    this.#key[1] = isIPv4 ? 0 : wordOf(source, 4);
    this.#key[2] = isIPv4 ? MAPPED : wordOf(source, 8);
    this.#key[3] = wordOf(source, source.length - 4);
    this.#lock();
    const slot = this.#acquire();
    this.#unlock();
    return slot;
  }

  /** The source of an open connection (4 or 16 bytes), by its slot. */
  sourceOf(slot: number): Uint8Array {
    const at = HEADER_WORDS + slot * SLOT_WORDS;
    const bytes = new Uint8Array(Int32Array.from(this.#words.subarray(at, at + COUNT_OFFSET)).buffer);
    const isIPv4 = this.#word(at) === 0 && this.#word(at + 1) === 0 && this.#word(at + 2) === MAPPED;
    return isIPv4 ? bytes.subarray(12) : bytes;
  }

  /** Open connections of all workers. */
  total(): number {
    return Atomics.load(this.#words, TOTAL);
  }

  /** Counts reserved descriptors that a worker has closed (positive) or opened again (negative). */
  lendFds(count: number): void {
    Atomics.add(this.#words, LENT_FDS, count);
  }

  /**
   * Whether a worker lacks reserved descriptors. Then the process is out of files, and a descriptor that was just
   * opened may be a reserved one. Close it again. Otherwise all reserved descriptors end up in connections, and the
   * next clients hang in the backlog.
   */
  isOutOfFds(): boolean {
    return Atomics.load(this.#words, LENT_FDS) > 0;
  }

  release(slot: number): void {
    this.#lock();
    const at = HEADER_WORDS + slot * SLOT_WORDS;
    const words = this.#words;
    words[TOTAL] = this.#word(TOTAL) - 1;
    words[at + COUNT_OFFSET] = this.#word(at + COUNT_OFFSET) - 1;
    if (words[at + COUNT_OFFSET] === 0) this.#vacate(slot);
    this.#unlock();
  }

  #acquire(): number {
    const words = this.#words;
    if (this.#word(TOTAL) >= this.#limits.maxConnections) return LIMIT_TOTAL;
    const slot = this.#findSlot();
    const at = HEADER_WORDS + slot * SLOT_WORDS;
    const count = words[at + STATE_OFFSET] === USED ? this.#word(at + COUNT_OFFSET) : 0;
    if (count >= this.#limits.maxConnectionsPerSource) return LIMIT_SOURCE;
    words[at + COUNT_OFFSET] = count + 1;
    words[at + STATE_OFFSET] = USED;
    for (let index = 0; index < 4; index += 1) words[at + index] = this.#key[index] ?? 0;
    words[TOTAL] = this.#word(TOTAL) + 1;
    return slot;
  }

  /** The source's slot, or a free one for it. */
  #findSlot(): number {
    const words = this.#words;
    let slot = hashOf(this.#key) & this.#mask;
    let free = -1;
    // At most one pass: an attacker could choose an order of sources that leaves a tombstone in every slot.
    for (let tries = 0; tries <= this.#mask; tries += 1, slot = (slot + 1) & this.#mask) {
      const at = HEADER_WORDS + slot * SLOT_WORDS;
      const state = words[at + STATE_OFFSET];
      if (state === EMPTY) return free === -1 ? slot : free;
      if (state === USED && this.#hasKeyAt(at)) return slot;
      if (state === TOMBSTONE && free === -1) free = slot;
    }
    // At most half of the slots are used, so the pass has seen a tombstone.
    return free;
  }

  /** Whether the slot at this word offset belongs to the source being looked up. */
  #hasKeyAt(at: number): boolean {
    for (let index = 3; index >= 0; index -= 1) if (this.#words[at + index] !== this.#key[index]) return false;
    return true;
  }

  #vacate(slot: number): void {
    const words = this.#words;
    const stateOf = (which: number): number => HEADER_WORDS + (which & this.#mask) * SLOT_WORDS + STATE_OFFSET;
    if (words[stateOf(slot + 1)] !== EMPTY) {
      words[stateOf(slot)] = TOMBSTONE;
      // No connection is left, so no lookup needs the tombstones.
      if (this.#word(TOTAL) === 0) words.fill(EMPTY, HEADER_WORDS);
      return;
    }
    words[stateOf(slot)] = EMPTY;
    for (let before = slot - 1; words[stateOf(before)] === TOMBSTONE; before -= 1) words[stateOf(before)] = EMPTY;
  }

  #lock(): void {
    for (let tries = 0; Atomics.compareExchange(this.#words, LOCK, 0, 1) !== 0; tries += 1) {
      if (tries > MAX_LOCK_TRIES) throw new Error("the lock of the connection limits was not released");
    }
  }

  #unlock(): void {
    Atomics.store(this.#words, LOCK, 0);
  }

  #word(index: number): number {
    return this.#words[index] ?? 0;
  }
}

/**
 * A 32-bit hash of an address's four words, with MurmurHash3's finalizer. The addresses of a node's pods differ only in
 * their last byte. It is the highest byte of the last word, so the high bits must affect the low ones.
 */
function hashOf(key: Int32Array): number {
  let hash = (key[0] ?? 0) ^ Math.imul(key[1] ?? 0, 0x85ebca6b);
  hash ^= Math.imul(key[2] ?? 0, 0xc2b2ae35) ^ Math.imul(key[3] ?? 0, 0x27d4eb2f);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

function wordOf(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24);
}
