import type { FailureTimes } from "../upstream-candidates.ts";

/*
 * Dial state of one listener, shared by all workers: whether the last dial connected, and when each address last
 * failed. The shared memory holds one word for the former and one double per address, indexed by the address's position
 * in the listener's list.
 */
const FAILED_AT_OFFSET = 8;
/** Maximum number of addresses of one upstream whose failures are stored. A Service's name has one or two. */
const MAX_ADDRESSES = 64;

export function newDialFailures(): SharedArrayBuffer {
  return new SharedArrayBuffer(FAILED_AT_OFFSET + MAX_ADDRESSES * Float64Array.BYTES_PER_ELEMENT);
}

export class DialFailures implements FailureTimes {
  readonly #connected: Int32Array;
  readonly #failedAt: Float64Array;
  #addresses: readonly string[] = [];

  constructor(block: SharedArrayBuffer) {
    this.#connected = new Int32Array(block, 0, 1);
    this.#failedAt = new Float64Array(block, FAILED_AT_OFFSET);
  }

  /** Sets the addresses; an address's position in this list is its slot. */
  setAddresses(addresses: readonly string[]): void {
    this.#addresses = addresses;
  }

  /** Records whether a dial connected. Returns whether the previous dial, of any worker, had connected. */
  recordOutcome(connected: boolean): boolean {
    return Atomics.exchange(this.#connected, 0, Number(connected)) === 1;
  }

  get(address: string): number | undefined {
    const failedAt = this.#failedAt[this.#addresses.indexOf(address)];
    return failedAt === 0 ? undefined : failedAt;
  }

  set(address: string, failedAt: number): void {
    // A typed array stores nothing at -1 or past its end. So nothing is stored for an address that is not in the
    // list, or too far down in it.
    this.#failedAt[this.#addresses.indexOf(address)] = failedAt;
  }

  delete(address: string): void {
    this.#failedAt[this.#addresses.indexOf(address)] = 0;
  }

  /** Empty: each address list has its own block, so no failure needs pruning. */
  keys(): Iterable<string> {
    return [];
  }
}
