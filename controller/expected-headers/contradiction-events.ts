import { describeError } from "#lib/errors/errors.ts";
import { eventReason } from "#lib/kube/events.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { steadyNow } from "#lib/kube/time.ts";
import { type ObjectEventsDeps, RETRY_MS, uidOf, YOUNG_MS } from "../claim-events/object-events.ts";
import type { HeaderContradiction } from "./contradictions.ts";

/** A contradiction must last this long, because an annotation and a setting are rarely changed in the same second. */
const SETTLE_MS = 10_000;

interface Entry {
  readonly found: HeaderContradiction;
  dueAt: number;
}

/**
 * Writes an Event on a Service if an answer contradicts something, and again if the answer or the other side changes.
 */
export class ContradictionEvents {
  readonly #deps: ObjectEventsDeps;
  readonly #now: () => number;
  readonly #reconciler: Reconciler;
  readonly #signal: AbortSignal;
  #waiting = new Map<string, Entry>();
  /**
   * Reported contradictions that still hold. Undefined before the first check, which treats old ones as already
   * reported.
   */
  #reported: Map<string, string> | undefined;

  /** Writes until `signal` aborts. */
  constructor(deps: ObjectEventsDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
    this.#now = deps.now ?? steadyNow;
    this.#reconciler = new Reconciler({
      reconcile: () => this.#write(),
      ...(deps.startTimer && { startTimer: deps.startTimer }),
    });
    signal.addEventListener("abort", () => void this.#reconciler.stop());
  }

  /** Pass all contradictions that exist now. */
  check(all: readonly HeaderContradiction[]): void {
    if (this.#signal.aborted) return;
    const { wallClock } = this.#deps;
    const isOld = ({ at }: HeaderContradiction) => wallClock() - Date.parse(at) >= YOUNG_MS;
    this.#reported ??= new Map(all.filter(isOld).map((found) => [keyOf(found), found.change]));
    const reported = this.#reported;
    const current = new Map(all.map((found) => [keyOf(found), found]));
    for (const key of reported.keys()) if (!current.has(key)) reported.delete(key);
    const news = [...current].filter(([key, { change }]) => reported.get(key) !== change);
    this.#waiting = new Map(
      news.map(([key, found]) => {
        const before = this.#waiting.get(key);
        return [key, before?.found.change === found.change ? before : { found, dueAt: this.#now() + SETTLE_MS }];
      }),
    );
    if (news.length > 0) this.#reconciler.enqueue();
  }

  async #write(): Promise<ReconcileResult> {
    for (const [key, entry] of this.#waiting) if (this.#waitMs(entry) <= 0) await this.#report(key, entry);
    const waits = [...this.#waiting.values()].map((entry) => this.#waitMs(entry));
    return { requeueAfter: waits.length === 0 ? undefined : Math.min(...waits) };
  }

  #waitMs({ found, dueAt }: Entry): number {
    return Math.max(0, dueAt - this.#now(), this.#deps.events.waitMs(found.service.namespace));
  }

  async #report(key: string, entry: Entry): Promise<void> {
    const { events, client, log } = this.#deps;
    const { service, reason, change } = entry.found;
    const { namespace, name } = service;
    const uid = await uidOf(client, corePath("services", namespace), name).catch((error: unknown) => {
      log.debug({ ...service, error: describeError(error) }, "no Event could be written");
      entry.dueAt = this.#now() + RETRY_MS;
      return undefined;
    });
    if (this.#waitMs(entry) > 0 || this.#signal.aborted || this.#waiting.get(key) !== entry) return;
    this.#waiting.delete(key);
    this.#reported?.set(key, change);
    if (uid === undefined) return;
    events.record({
      type: "Warning",
      reason: eventReason(reason.code),
      action: "Map",
      note: reason.text,
      regarding: { apiVersion: "v1", kind: "Service", namespace, name, uid },
    });
  }
}

function keyOf({ target, port, reason }: HeaderContradiction): string {
  return `${target}:${port} ${reason.code}`;
}
