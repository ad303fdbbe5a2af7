import { isIPv6 } from "node:net";

/** How long a failed address is tried after the others. */
export const AVOID_MS = 10_000;

/** When each address last failed, in milliseconds. A Map, or memory that threads share. */
export interface FailureTimes {
  get(address: string): number | undefined;
  set(address: string, failedAt: number): unknown;
  delete(address: string): unknown;
  keys(): Iterable<string>;
}

/**
 * The order in which a listener's connections try its upstream's addresses: round robin among the addresses of the
 * first one's family, then the other family, and recently failed addresses last. All addresses of a dual-stack
 * Service lead to the same pods. But an ingress controller may trust only one family of the proxies' addresses, and
 * the proxy asks only the first address about headers (`AskedPort.choose`).
 */
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
    const isLikeFirst = (address: string) => isIPv6(address) === isIPv6(addresses[0] ?? "");
    const preferred = addresses.filter(isLikeFirst);
    const start = this.#turn++ % preferred.length;
    const others = addresses.filter((address) => !isLikeFirst(address));
    const rotated = [...preferred.slice(start), ...preferred.slice(0, start), ...others];
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
