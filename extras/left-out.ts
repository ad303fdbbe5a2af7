import type { Reason } from "#hostmap/types.ts";

/** Maximum number of names that a reason lists. */
const MAX_LISTED = 3;

/** Names that a writer leaves out: their number, and the first few reasons. */
export class LeftOut {
  count = 0;
  readonly #first: Reason[] = [];

  add(reason: Reason): void {
    this.count += 1;
    if (this.#first.length < MAX_LISTED) this.#first.push(reason);
  }

  addAll({ count, reasons }: Pick<LeftOut, "count" | "reasons">): void {
    this.count += count;
    this.#first.push(...reasons.slice(0, MAX_LISTED - this.#first.length));
  }

  /** The first few reasons. */
  get reasons(): readonly Reason[] {
    return this.#first;
  }

  /** The reason to report, with the code of the first one. Undefined if no name was left out. */
  get reason(): Reason | undefined {
    const [first] = this.#first;
    if (first === undefined) return undefined;
    const texts = this.#first.map(({ text }) => text).join("; ");
    return { code: first.code, text: `${this.count} names are left out: ${texts}` };
  }
}
