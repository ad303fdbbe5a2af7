import type { RefusalCause } from "../close-causes.ts";
import type { Reply } from "./plan.ts";

/** Refusals are told to the main thread this often at most. */
const TELL_MS = 100;

/** A client that is refused here, without an upstream having been asked. */
type LocalRefusal = Exclude<RefusalCause, "upstream">;

/** Tells the main thread of the first refusal at once, and of those that follow closely together: a flood of them must cost little. */
export class RefusalReporter {
  readonly #reply: (reply: Reply) => void;
  readonly #untold = new Map<LocalRefusal, { count: number; fields: object }>();
  /** When those that are kept back are told, by the loop's clock. */
  flushAt = Number.POSITIVE_INFINITY;

  constructor(reply: (reply: Reply) => void) {
    this.#reply = reply;
  }

  report(cause: LocalRefusal, fields: object, now: number): void {
    const untold = this.#untold.get(cause);
    if (untold !== undefined) {
      untold.count += 1;
      return;
    }
    this.#untold.set(cause, { count: 0, fields });
    this.#reply({ kind: "refused", cause, count: 1, fields });
    this.flushAt = Math.min(this.flushAt, now + TELL_MS);
  }

  flush(): void {
    this.flushAt = Number.POSITIVE_INFINITY;
    for (const [cause, { count, fields }] of this.#untold) {
      if (count > 0) this.#reply({ kind: "refused", cause, count, fields });
    }
    this.#untold.clear();
  }
}
