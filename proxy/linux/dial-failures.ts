import type { FailureMemory } from "../upstream-candidates.ts";

/*
 * What the workers know together of dialling for one listener: whether the last dial that was reported connected, and when each
 * address failed. Shared memory: a word for the first, and a double for each address, in a slot that the main thread has given it.
 */
const FAILED = 8;
/** Addresses of one upstream that failures are remembered of; a Service's name has one or two. */
const REMEMBERED_ADDRESSES = 64;

export function newDialFailures(): SharedArrayBuffer {
  return new SharedArrayBuffer(FAILED + REMEMBERED_ADDRESSES * Float64Array.BYTES_PER_ELEMENT);
}

export class DialFailures implements FailureMemory {
  readonly #connected: Int32Array;
  readonly #failedAt: Float64Array;
  #addresses: readonly string[] = [];

  constructor(block: SharedArrayBuffer) {
    this.#connected = new Int32Array(block, 0, 1);
    this.#failedAt = new Float64Array(block, FAILED);
  }

  /** Each address has the slot of its place in this list. */
  setAddresses(addresses: readonly string[]): void {
    this.#addresses = addresses;
  }

  /** Notes how a dial ended, and says whether the one before it had connected, whichever worker's it was. */
  recordOutcome(connected: boolean): boolean {
    return Atomics.exchange(this.#connected, 0, Number(connected)) === 1;
  }

  get(address: string): number | undefined {
    const failedAt = this.#failedAt[this.#addresses.indexOf(address)];
    return failedAt === 0 ? undefined : failedAt;
  }

  set(address: string, failedAt: number): void {
    const slot = this.#addresses.indexOf(address);
    if (slot !== -1 && slot < REMEMBERED_ADDRESSES) this.#failedAt[slot] = failedAt;
  }

  delete(address: string): void {
    const slot = this.#addresses.indexOf(address);
    if (slot !== -1 && slot < REMEMBERED_ADDRESSES) this.#failedAt[slot] = 0;
  }

  /** Failures of other addresses are gone with the plan that named them. */
  keys(): Iterable<string> {
    return [];
  }
}
