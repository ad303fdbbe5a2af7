import { show } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Plan } from "#hostmap/plan.ts";
import { describeError } from "#lib/errors/errors.ts";
import { listSome } from "#lib/errors/printable.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import { type EventRecorder, eventReason } from "#lib/kube/events.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { steadyNow, timeSlices } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { adviceOn, isHarmless } from "./advice.ts";

interface ClaimEventsDeps {
  readonly plan: Pick<Plan, "decisionsOf" | "planned">;
  readonly events: Pick<EventRecorder, "record" | "waitMs">;
  readonly log: Logger;
}

/** How long a refusal must last, because most objects have no address in their first seconds. Also between tries. */
const SETTLE_MS = 10_000;
/** Maximum number of names in an Event; the others are counted. */
const LISTED = 5;
/** The reason code of a name that the owner chose to ignore. */
const CHOSEN = "ignored";
/** The only warning about a mapped name that concerns its owner. */
const PORT_LOST = "port-lost";

/**
 * Writes Events on objects whose names are not mapped, or lose a port: one for each object and reason. The API server
 * refuses a repetition while it has the Event (an hour), so nothing is remembered. An object is evaluated when its time
 * comes, so no Event is outdated. If the budget of its namespace is used up, its time comes again.
 */
export class ClaimEvents {
  readonly #deps: ClaimEventsDeps;
  readonly #reconciler: Reconciler;
  /** Objects whose decisions may have changed, with the time when they are evaluated, earliest first. */
  readonly #touched = new Map<string, number>();

  constructor(deps: ClaimEventsDeps) {
    this.#deps = deps;
    this.#reconciler = new Reconciler({
      reconcile: async () => ({ requeueAfter: await this.#reportDue() }),
      // An object that cannot be evaluated affects only itself: it is evaluated again only after a change.
      retry: {
        backoff: createBackoff(SETTLE_MS, SETTLE_MS),
        onError: (error) => deps.log.error({ code: "internal-error" }, describeError(error)),
      },
    });
  }

  /** Evaluates these objects soon: decisions about their names may have changed. */
  changed(objects: Iterable<string>): void {
    for (const object of objects) this.#evaluateLater(object);
  }

  async stop(): Promise<void> {
    await this.#reconciler.stop();
  }

  #evaluateLater(object: string): void {
    if (this.#touched.has(object)) return;
    this.#touched.set(object, steadyNow() + SETTLE_MS);
    this.#reconciler.enqueue(SETTLE_MS);
  }

  /** Reports the objects whose time has come. Returns the delay until the next one, in milliseconds. */
  async #reportDue(): Promise<number | undefined> {
    const slice = timeSlices();
    for (const [object, dueAt] of this.#touched) {
      if (dueAt > steadyNow()) break;
      this.#touched.delete(object);
      this.#report(object);
      await slice();
    }
    const [dueAt] = this.#touched.values();
    return dueAt === undefined ? undefined : Math.max(0, dueAt - steadyNow());
  }

  /** Writes the Events of an object, as far as the budget of its namespace allows. */
  #report(object: string): void {
    const { events, plan } = this.#deps;
    const [first] = plan.decisionsOf(object);
    if (first === undefined) return;
    const { apiVersion, uid, ...ref } = first.from;
    if (apiVersion === undefined || uid === undefined) return;
    for (const [code, names] of this.#refusalsOf(object)) {
      if (events.waitMs(ref.namespace) > 0) {
        this.#evaluateLater(object);
        return;
      }
      events.record({
        type: isHarmless(code) ? "Normal" : "Warning",
        reason: eventReason(code),
        action: "Map",
        note: `${listOf(names)} ${code === PORT_LOST ? "" : "not "}mapped (${code}): ${adviceOn(code)}`,
        regarding: { ...ref, apiVersion, uid },
        key: `${uid} ${code}`,
      });
    }
  }

  /** By reason code: the names of an object that are not mapped, or lose a port. */
  #refusalsOf(object: string) {
    const { plan } = this.#deps;
    const refusals = new Map<string, Set<string>>();
    const claims = [...plan.decisionsOf(object)];
    const mapped = new Set(claims.flatMap(({ name, decision }) => (decision.mapped ? [name] : [])));
    for (const { name, decision, warning } of claims) {
      const reason = decision.mapped ? warning : decision.reason;
      // An object may claim a name twice, for two targets. Most warnings are for the administrator.
      const isNews = decision.mapped ? reason?.code === PORT_LOST : !mapped.has(name);
      if (reason === undefined || !isNews || reason.code === CHOSEN) continue;
      getOrAdd(refusals, reason.code, () => new Set<string>()).add(name);
    }
    return refusals;
  }
}

/** Lists names as the beginning of a sentence. */
function listOf(names: ReadonlySet<string>): string {
  const textOf = (name: string) => (/^[a-z0-9.*-]{1,80}$/.test(name) ? name : show(name));
  return `${listSome([...names], LISTED, textOf)} ${names.size === 1 ? "is" : "are"}`;
}
