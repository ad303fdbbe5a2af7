/** How much may be written, on average. */
export interface PaceRules {
  readonly publicationsPerSecond: number;
  readonly bytesPerSecond: number;
}

/** Seconds of bytes that may be spent at once after a quiet time: a change in several shards still goes out whole and at once. */
const BYTE_BURST_SECONDS = 2;

/**
 * Two token buckets. A single change after a quiet time goes out at once; under churn the changes of a whole interval go out
 * together. Bytes may be overdrawn (a publication is never split) and are paid back by waiting.
 */
export class Pacer {
  readonly #rules: PaceRules;
  #nextPublication = 0;
  #bytes: number;
  #countedAt = 0;

  constructor(rules: PaceRules) {
    this.#rules = rules;
    this.#bytes = rules.bytesPerSecond * BYTE_BURST_SECONDS;
  }

  /** Milliseconds until a publication is allowed; 0 for now. */
  delay(now: number): number {
    this.#refill(now);
    const { bytesPerSecond, publicationsPerSecond } = this.#rules;
    // A clock that was set back must not make the next publication wait until it has caught up.
    const forTurn = Math.min(this.#nextPublication - now, 1000 / publicationsPerSecond);
    const forBytes = this.#bytes >= 0 ? 0 : (-this.#bytes / bytesPerSecond) * 1000;
    return Math.max(0, Math.ceil(Math.max(forTurn, forBytes)));
  }

  /** Counts a publication. */
  spend(now: number, bytes: number): void {
    this.#refill(now);
    this.#bytes -= bytes;
    this.#nextPublication = now + 1000 / this.#rules.publicationsPerSecond;
  }

  #refill(now: number): void {
    const { bytesPerSecond } = this.#rules;
    const earned = (Math.max(0, now - this.#countedAt) / 1000) * bytesPerSecond;
    this.#bytes = Math.min(bytesPerSecond * BYTE_BURST_SECONDS, this.#bytes + earned);
    this.#countedAt = now;
  }
}
