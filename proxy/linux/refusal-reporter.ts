import type { RefusalCause } from "../close-causes.ts";
import type { Reply } from "./worker-messages.ts";

/** Shortest interval between two reports of one cause to the main thread. */
const REPORT_MS = 100;

/** Causes of a refusal before an upstream is dialled. */
type LocalRefusal = Exclude<RefusalCause, "upstream">;

/**
 * Batches a worker's messages about refusals, so that a flood of refusals costs little. The first refusal of a cause
 * is reported to the main thread at once, the others together; none is lost. The main thread throttles the log.
 */
export class RefusalReporter {
  readonly #reply: (reply: Reply) => void;
  readonly #unreported = new Map<LocalRefusal, { count: number; fields: object }>();
  /** When batched refusals are reported, on the loop's clock. */
  flushAt = Number.POSITIVE_INFINITY;

  constructor(reply: (reply: Reply) => void) {
    this.#reply = reply;
  }

  report(cause: LocalRefusal, fields: object, now: number): void {
    const unreported = this.#unreported.get(cause);
    if (unreported !== undefined) {
      unreported.count += 1;
      return;
    }
    this.#unreported.set(cause, { count: 0, fields });
    this.#reply({ kind: "refused", cause, count: 1, fields });
    this.flushAt = Math.min(this.flushAt, now + REPORT_MS);
  }

  flush(): void {
    this.flushAt = Number.POSITIVE_INFINITY;
    for (const [cause, { count, fields }] of this.#unreported) {
      if (count > 0) this.#reply({ kind: "refused", cause, count, fields });
    }
    this.#unreported.clear();
  }
}
