import type { EngineLimits } from "../engine.ts";

/** Counts open connections against the limits, total and per source address. */
export class ConnectionAdmission {
  readonly #limits: Pick<EngineLimits, "maxConnections" | "maxConnectionsPerSource">;
  readonly #bySource = new Map<string, number>();
  #total = 0;

  constructor(limits: Pick<EngineLimits, "maxConnections" | "maxConnectionsPerSource">) {
    this.#limits = limits;
  }

  /** Admits a connection from `source`, or returns the limit that is reached. Release each admitted connection. */
  admit(source: string): "limit-total" | "limit-source" | undefined {
    if (this.#total >= this.#limits.maxConnections) return "limit-total";
    const count = this.#bySource.get(source) ?? 0;
    if (count >= this.#limits.maxConnectionsPerSource) return "limit-source";
    this.#bySource.set(source, count + 1);
    this.#total += 1;
    return undefined;
  }

  release(source: string): void {
    const count = this.#bySource.get(source) ?? 0;
    if (count > 1) this.#bySource.set(source, count - 1);
    else this.#bySource.delete(source);
    this.#total -= 1;
  }
}
