import { show } from "#hostmap/hostnames.ts";
import type { Plan } from "#hostmap/plan.ts";
import { describeError } from "#lib/errors/errors.ts";
import { listSome } from "#lib/errors/printable.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import { eventReason } from "#lib/kube/events.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { steadyNow, timeSlices } from "#lib/kube/time.ts";
import type { Source } from "../sources/types.ts";
import { adviceOn } from "./advice.ts";
import { type ObjectEventsDeps, RETRY_MS, uidOf, YOUNG_MS } from "./object-events.ts";
import { EventQueue } from "./queue.ts";
import { KnownRefusals, type Refusals, type RefusedObject, refusedOf } from "./refusals.ts";

interface ClaimEventsDeps extends ObjectEventsDeps {
  readonly plan: Pick<Plan, "decisionsOf" | "objects" | "planned">;
  readonly source: Pick<Source, "resourceOf">;
}

/** A refusal must last this long, because most objects have no address in their first seconds. */
const SETTLE_MS = 10_000;
/** Maximum number of names in an Event; the others are counted. */
const LISTED = 5;

/**
 * Writes an Event on each object whose names are not mapped: one per reason, after a name has had it for some time.
 * Only the leader does so. An object may have to wait for its namespace's budget. Then it is evaluated when its turn
 * comes. So a budget only delays an Event, and an outdated Event is never written.
 *
 *   plan ──> touched objects ──> compared with what is known ──> queue by namespace ──> Event
 */
export class ClaimEvents {
  readonly #deps: ClaimEventsDeps;
  readonly #now: () => number;
  #term: Term | undefined;

  constructor(deps: ClaimEventsDeps) {
    this.#deps = deps;
    this.#now = deps.now ?? steadyNow;
  }

  /**
   * Begins a term, once the plan is complete. Current refusals count as known, because an earlier leader had the time
   * to report them. Exceptions are young objects, and names that were mapped until now. If the earlier leader did
   * report one, the API server still has the Event and refuses the new one.
   */
  begin(signal: AbortSignal, wasMapped: (name: string) => boolean): void {
    if (signal.aborted) return;
    const { plan, log, startTimer } = this.#deps;
    const reconciler = new Reconciler({
      reconcile: async () => ({ requeueAfter: await this.#turn(term) }),
      ...(startTimer && { startTimer }),
      // An object that cannot be evaluated affects only itself: it is evaluated again only after a change.
      retry: {
        backoff: createBackoff(RETRY_MS, RETRY_MS),
        onError: (error) => log.error({ code: "object-failed" }, describeError(error)),
      },
    });
    const term: Term = { signal, wasMapped, reconciler, unread: plan.objects, ...newState() };
    this.#term = term;
    signal.addEventListener("abort", () => {
      void reconciler.stop();
      if (this.#term === term) this.#term = undefined;
    });
    reconciler.enqueue();
  }

  /** Tells the reporter that decisions about names of these objects may have changed. */
  changed(objects: ReadonlySet<string>): void {
    const term = this.#term;
    if (term === undefined || objects.size === 0) return;
    for (const object of objects) term.touched.add(object);
    term.reconciler.enqueue();
  }

  /** The numbers of remembered objects, of those that wait for their Event, and of those still to evaluate. */
  get sizes(): { readonly known: number; readonly waiting: number; readonly touched: number } {
    const { known, queue, touched } = this.#term ?? newState();
    return { known: known.size, waiting: queue.size, touched: touched.size };
  }

  /** Returns the delay until the next turn, in milliseconds; undefined: no turn is needed. */
  async #turn(term: Term): Promise<number | undefined> {
    const slice = timeSlices();
    for (const object of term.unread) {
      // An object that has already changed may have been mapped when the term began.
      if (!term.touched.has(object)) this.#learn(term, object);
      await slice();
    }
    // Release the callback: it may hold the whole map of the takeover.
    term.wasMapped = () => false;
    for (const object of term.touched) {
      term.touched.delete(object);
      this.#compare(term, object, refusedOf(this.#deps.plan, object));
      await slice();
    }
    while (!term.signal.aborted && term.queue.size > 0) {
      // Check the overall budget first, instead of that of each of 10,000 namespaces.
      const waitMs = this.#deps.events.waitMs();
      if (waitMs > 0) return waitMs;
      const next = term.queue.take(this.#now(), (namespace) => this.#deps.events.waitMs(namespace));
      if (!("object" in next)) return next.waitMs;
      if (await this.#report(term, next.object)) return 0;
      await slice();
    }
    return undefined;
  }

  #learn(term: Term, object: string): void {
    const found = refusedOf(this.#deps.plan, object);
    if (found === undefined) return;
    const isYoung = this.#deps.wallClock() - Date.parse(found.since) < YOUNG_MS;
    const isNews = (name: string) => isYoung || (term.wasMapped(name) && !this.#deps.plan.planned.has(name));
    term.known.set(object, new Map([...found.refusals].filter(([name]) => !isNews(name))));
    this.#compare(term, object, found);
  }

  /** Forgets refusals that no longer hold, and queues the object if it has new ones. */
  #compare({ known, queue }: Term, object: string, found: RefusedObject | undefined): void {
    if (found === undefined) {
      known.delete(object);
      queue.remove(object);
      return;
    }
    const before = known.knownOf(object, found.refusals);
    known.set(object, before);
    if (before.size < found.refusals.size) queue.add(object, found.from.namespace, this.#now() + SETTLE_MS);
  }

  /** Reports the first new reason. Returns whether it found one. */
  async #report(term: Term, object: string): Promise<boolean> {
    const { known, queue } = term;
    const found = refusedOf(this.#deps.plan, object);
    if (found === undefined) return false;
    const before = known.knownOf(object, found.refusals);
    const news = new Set([...found.refusals].filter(([name]) => !before.has(name)).map(([, code]) => code));
    const [code] = news;
    if (code === undefined) return false;
    if ((await this.#write(term, object, found, code)) === "failed") {
      queue.add(object, found.from.namespace, this.#now() + RETRY_MS);
      return true;
    }
    known.set(object, new Map([...found.refusals].filter(([name, each]) => each === code || before.has(name))));
    if (news.size > 1) queue.add(object, found.from.namespace, this.#now());
    return true;
  }

  async #write(
    { signal }: Term,
    object: string,
    { from, refusals }: RefusedObject,
    code: string,
  ): Promise<"done" | "failed"> {
    const resource = this.#deps.source.resourceOf?.(object);
    if (resource === undefined) return "done";
    const { namespace, name } = from;
    try {
      const path = resourcePath({ ...resource, ...(namespace !== "" && { namespace }) });
      const uid = await uidOf(this.#deps.client, path, name);
      if (uid === undefined || signal.aborted) return "done";
      const { text, harmless = false, mapped = false } = adviceOn(code);
      this.#deps.events.record({
        type: harmless ? "Normal" : "Warning",
        reason: eventReason(code),
        action: "Map",
        note: `${listOf(refusals, code)} ${mapped ? "" : "not "}mapped (${code}): ${text}`,
        regarding: { apiVersion: versionOf(resource), kind: resource.kind, namespace, name, uid },
      });
      return "done";
    } catch (error) {
      this.#deps.log.debug({ object: show(object), error: describeError(error) }, "no Event could be written");
      return "failed";
    }
  }
}

/** The state of a leader from `begin` until its signal aborts. */
interface Term extends ReturnType<typeof newState> {
  readonly signal: AbortSignal;
  wasMapped: (name: string) => boolean;
  readonly reconciler: Reconciler;
  /** The objects that existed when the term began. It is an iterator, so each is read once. */
  readonly unread: Iterable<string>;
}

function newState() {
  return { known: new KnownRefusals(), queue: new EventQueue(), touched: new Set<string>() };
}

function versionOf({ group, version }: { readonly group: string; readonly version: string }): string {
  return group === "" ? version : `${group}/${version}`;
}

/** Lists the names with this reason, as the beginning of a sentence. */
function listOf(refusals: Refusals, code: string): string {
  const names = [...refusals].filter(([, each]) => each === code).map(([name]) => name);
  const textOf = (name: string) => (/^[a-z0-9.*-]{1,80}$/.test(name) ? name : show(name));
  return `${listSome(names, LISTED, textOf)} ${names.length === 1 ? "is" : "are"}`;
}
