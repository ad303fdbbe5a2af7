import { NO_ANSWER, NOT_OURS, type Readers } from "./publisher.ts";

/**
 * `current`: readers get the newest map. `waiting`: they get an earlier one, or none yet. `overdue`: for too long, no
 * answer has shown that the map was accepted.
 */
type ReaderState = "current" | "waiting" | "overdue";

/** Number of remembered revisions: readers may be some publications behind while the map keeps changing. */
const MAX_REVISIONS = 100;

/**
 * Decides from the answers that readers get whether a publication reaches them. Readers that get a map that was
 * replaced a moment ago are only late. If readers get one that was replaced long ago, or none, they will not get the
 * newest: it was not accepted.
 */
export class ReaderWatch {
  readonly #readers: Readers;
  readonly #patienceMs: number;
  /** When a revision was replaced by a newer one, by the revision's tag; infinite for the newest. */
  readonly #replacedAt = new Map<string, number>();
  /** When an answer last showed that publications are accepted, or when there was last a reason to wait. */
  #goodAt: number;

  constructor(readers: Readers, patienceMs: number, now: number) {
    this.#readers = readers;
    this.#patienceMs = patienceMs;
    this.#goodAt = now;
  }

  /** Records that a revision was written. `first`: whether nothing of ours was there before. */
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
   * Asks the readers. `accepted`: whether they have had this revision before. If so, it is not the cause of a missing
   * answer.
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
