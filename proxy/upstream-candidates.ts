/** How long a failed address is tried after the others. */
export const AVOID_MS = 10_000;

/** When each address last failed, in milliseconds. A Map, or memory that threads share. */
export interface FailureTimes {
  get(address: string): number | undefined;
  set(address: string, failedAt: number): unknown;
  delete(address: string): unknown;
  keys(): Iterable<string>;
}

/** The order in which a listener's connections try its upstream's addresses: round robin, with recent failures last. */
export class CandidateOrder {
  #turn = 0;
  readonly #failedAt: FailureTimes;

  constructor(failedAt: FailureTimes = new Map<string, number>()) {
    this.#failedAt = failedAt;
  }

  /** Returns `addresses` in the order to try them at `now` (milliseconds). */
  next(addresses: readonly string[], now: number): readonly string[] {
    this.#forget(addresses);
    if (addresses.length < 2) return addresses;
    const start = this.#turn++ % addresses.length;
    const rotated = [...addresses.slice(start), ...addresses.slice(0, start)];
    const avoided = rotated.filter((address) => now - (this.#failedAt.get(address) ?? -AVOID_MS) < AVOID_MS);
    return [...rotated.filter((address) => !avoided.includes(address)), ...avoided];
  }

  failed(address: string, now: number): void {
    this.#failedAt.set(address, now);
  }

  connected(address: string): void {
    this.#failedAt.delete(address);
  }

  /** Drops failures of addresses that are no longer in the list. */
  #forget(addresses: readonly string[]): void {
    for (const address of this.#failedAt.keys()) {
      if (!addresses.includes(address)) this.#failedAt.delete(address);
    }
  }
}
