import type { EngineLimits } from "./engine.ts";

/** Counts open connections against the limits, in all and per source address. */
export class ConnectionAdmission {
  readonly #limits: Pick<EngineLimits, "maxConnections" | "maxConnectionsPerSource">;
  readonly #bySource = new Map<string, number>();
  #total = 0;

  constructor(limits: Pick<EngineLimits, "maxConnections" | "maxConnectionsPerSource">) {
    this.#limits = limits;
  }

  /** Takes a place for `source`, or says which limit is reached. Each place taken must be given back by `release`. */
  admit(source: string): "limit-total" | "limit-source" | undefined {
    if (this.#total >= this.#limits.maxConnections) return "limit-total";
    const held = this.#bySource.get(source) ?? 0;
    if (held >= this.#limits.maxConnectionsPerSource) return "limit-source";
    this.#bySource.set(source, held + 1);
    this.#total += 1;
    return undefined;
  }

  release(source: string): void {
    const held = this.#bySource.get(source) ?? 0;
    if (held > 1) this.#bySource.set(source, held - 1);
    else this.#bySource.delete(source);
    this.#total -= 1;
  }
}
