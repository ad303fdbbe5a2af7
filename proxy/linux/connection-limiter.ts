import type { EngineLimits } from "../engine.ts";

/*
 * The limits of connections, in all and per source, over all workers: an open-addressed table of sources in shared memory.
 *
 *     lock | total | ... | slot 0: address (4 words), count, state | slot 1 | ...
 *
 * A source keeps its slot while it has connections, so that a connection remembers no more than the slot's number. A slot given
 * back is marked as left, since searches for others may have passed over it, and becomes empty once the slot after it is. There are
 * twice as many slots as connections can be. A lock guards all of it: what is done under it takes well under a microsecond.
 */
const LOCK = 0;
const TOTAL = 1;
const HEAD = 4;
const SLOT = 6;
const COUNT = 4;
const STATE = 5;
/** Word 2 of an IPv4 address's key, as in its IPv6 form: ::ffff:a.b.c.d. */
const MAPPED = 0xffff0000 | 0;
const EMPTY = 0;
const USED = 1;
const LEFT = 2;
/** Far beyond what any holder needs; a thread that died with the lock must not hang the others silently. */
const LOCK_TRIES = 1_000_000_000;

type Limits = Pick<EngineLimits, "maxConnections" | "maxConnectionsPerSource">;

/** No place: which limit is reached. A place is a number from 0. */
export const LIMIT_TOTAL = -1;
export const LIMIT_SOURCE = -2;

export function newConnectionLimits({ maxConnections }: Limits): SharedArrayBuffer {
  const slots = 2 ** Math.ceil(Math.log2(2 * maxConnections + 2));
  return new SharedArrayBuffer((HEAD + slots * SLOT) * Int32Array.BYTES_PER_ELEMENT);
}

export class ConnectionLimiter {
  readonly #words: Int32Array;
  readonly #limits: Limits;
  readonly #mask: number;
  /** The source asked for, as four words. */
  readonly #key = new Int32Array(4);

  constructor(block: SharedArrayBuffer, limits: Limits) {
    this.#words = new Int32Array(block);
    this.#limits = limits;
    this.#mask = (this.#words.length - HEAD) / SLOT - 1;
  }

  /** Takes a place for a source (4 or 16 bytes), to be given back by `release`; LIMIT_TOTAL or LIMIT_SOURCE if it gets none. */
  admit(source: Uint8Array): number {
    const isIPv4 = source.length === 4;
    this.#key[0] = isIPv4 ? 0 : wordOf(source, 0);
    this.#key[1] = isIPv4 ? 0 : wordOf(source, 4);
    this.#key[2] = isIPv4 ? MAPPED : wordOf(source, 8);
    this.#key[3] = wordOf(source, source.length - 4);
    this.#lock();
    const place = this.#take();
    this.#unlock();
    return place;
  }

  /** Connections that are open now, over all workers. */
  total(): number {
    return Atomics.load(this.#words, TOTAL);
  }

  release(place: number): void {
    this.#lock();
    const at = HEAD + place * SLOT;
    const words = this.#words;
    words[TOTAL] = this.#at(TOTAL) - 1;
    words[at + COUNT] = this.#at(at + COUNT) - 1;
    if (words[at + COUNT] === 0) this.#leave(place);
    this.#unlock();
  }

  #take(): number {
    const words = this.#words;
    if (this.#at(TOTAL) >= this.#limits.maxConnections) return LIMIT_TOTAL;
    const place = this.#find();
    const at = HEAD + place * SLOT;
    const held = words[at + STATE] === USED ? this.#at(at + COUNT) : 0;
    if (held >= this.#limits.maxConnectionsPerSource) return LIMIT_SOURCE;
    words[at + COUNT] = held + 1;
    words[at + STATE] = USED;
    for (let index = 0; index < 4; index += 1) words[at + index] = this.#key[index] ?? 0;
    words[TOTAL] = this.#at(TOTAL) + 1;
    return place;
  }

  /** The source's slot, or the one to give it. */
  #find(): number {
    const words = this.#words;
    let place = hashOf(this.#key) & this.#mask;
    let free = -1;
    // Once round at most: sources that come and go in a chosen order could leave marks in every slot.
    for (let tries = 0; tries <= this.#mask; tries += 1, place = (place + 1) & this.#mask) {
      const at = HEAD + place * SLOT;
      const state = words[at + STATE];
      if (state === EMPTY) return free === -1 ? place : free;
      if (state === USED && this.#isHeldAt(at)) return place;
      if (state === LEFT && free === -1) free = place;
    }
    // At most half of the slots are used, so one that was left has been passed.
    return free;
  }

  /** Whether the slot at this word is that of the source asked for. */
  #isHeldAt(at: number): boolean {
    for (let index = 3; index >= 0; index -= 1) if (this.#words[at + index] !== this.#key[index]) return false;
    return true;
  }

  #leave(place: number): void {
    const words = this.#words;
    const stateOf = (which: number): number => HEAD + (which & this.#mask) * SLOT + STATE;
    if (words[stateOf(place + 1)] !== EMPTY) {
      words[stateOf(place)] = LEFT;
      // Nobody is left: the marks lead nowhere.
      if (this.#at(TOTAL) === 0) words.fill(EMPTY, HEAD);
      return;
    }
    words[stateOf(place)] = EMPTY;
    for (let before = place - 1; words[stateOf(before)] === LEFT; before -= 1) words[stateOf(before)] = EMPTY;
  }

  #lock(): void {
    for (let tries = 0; Atomics.compareExchange(this.#words, LOCK, 0, 1) !== 0; tries += 1) {
      if (tries > LOCK_TRIES) throw new Error("the lock of the connection limits is not given back");
    }
  }

  #unlock(): void {
    Atomics.store(this.#words, LOCK, 0);
  }

  #at(index: number): number {
    return this.#words[index] ?? 0;
  }
}

/**
 * The four words of an address, spread over 32 bits: MurmurHash3's finalizer. The addresses of a node's pods differ in their last
 * byte only, which is the highest of the last word, so high bits must reach the low ones.
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
