import { NO_ANSWER, NOT_OURS, type Readers } from "./publisher.ts";

/**
 * What readers get: the newest map; an earlier one, or not yet any; or for too long nothing that shows that it was
 * accepted.
 */
type ReaderState = "current" | "waiting" | "overdue";

/** Revisions that are remembered: readers may be some publications behind while the map keeps changing. */
const MAX_REVISIONS = 100;

/**
 * Judges by the answers that readers get whether a publication reaches them. Readers that get a map that was
 * replaced a moment ago are only late. Readers that get one that was replaced long ago, or none, will not get the
 * newest: it was not accepted.
 */
export class ReaderWatch {
  readonly #readers: Readers;
  readonly #patienceMs: number;
  /** By tag: when it was replaced by a newer one; infinite for the newest. */
  readonly #replacedAt = new Map<string, number>();
  /** When an answer last showed that what is published is accepted, or there was last a reason to wait. */
  #goodAt: number;

  constructor(readers: Readers, patienceMs: number, now: number) {
    this.#readers = readers;
    this.#patienceMs = patienceMs;
    this.#goodAt = now;
  }

  /** A revision was written. `first`: nothing of ours was there before. */
  published(revision: string, first: boolean, now: number): void {
    if (first) this.#goodAt = now;
    for (const [tag, replaced] of this.#replacedAt) if (replaced > now) this.#replacedAt.set(tag, now);
    const tag = this.#readers.tagOf(revision);
    this.#replacedAt.delete(tag);
    this.#replacedAt.set(tag, Number.POSITIVE_INFINITY);
    for (const [oldest] of this.#replacedAt) {
      if (this.#replacedAt.size <= MAX_REVISIONS) break;
      this.#replacedAt.delete(oldest);
    }
  }

  /**
   * Asks. `accepted`: readers have had this revision before, so that readers who get no answer at all are not its
   * fault.
   */
  async check(revision: string, accepted: boolean, now: () => number): Promise<ReaderState> {
    const wanted = this.#readers.tagOf(revision);
    const answers = await this.#readers.ask();
    const at = now();
    if (answers.size === 1 && answers.has(wanted)) {
      this.#goodAt = at;
      return "current";
    }
    for (const tag of answers) if (this.#isGood(tag, wanted, accepted, at)) this.#goodAt = at;
    return at - this.#goodAt > this.#patienceMs ? "overdue" : "waiting";
  }

  #isGood(tag: string, wanted: string, accepted: boolean, now: number): boolean {
    if (tag === NO_ANSWER) return accepted;
    if (tag === NOT_OURS) return false;
    return tag === wanted || now - (this.#replacedAt.get(tag) ?? Number.NEGATIVE_INFINITY) < this.#patienceMs;
  }
}
