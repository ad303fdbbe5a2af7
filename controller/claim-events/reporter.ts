import { show } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { ReportedClaim } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { listSome } from "#lib/errors/printable.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type EventRecorder, eventReason } from "#lib/kube/events.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type StartTimer, steadyNow, timeSlices } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ClaimSource } from "../sources/types.ts";
import { adviceOn } from "./advice.ts";

interface ClaimEventsDeps {
  readonly plan: Pick<Plan, "decisionsOf" | "planned">;
  readonly source: Pick<ClaimSource, "resourceOf">;
  readonly events: Pick<EventRecorder, "record" | "waitMs">;
  readonly client: Pick<KubeClient, "get">;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly wallClock: () => number;
  /** A monotonic clock, milliseconds. */
  readonly now?: () => number;
  /** Only tests set it. */
  readonly startTimer?: StartTimer;
}

/** How long a refusal must last, because most objects have no address in their first seconds. Also between tries. */
const SETTLE_MS = 10_000;
/**
 * How long a new leader reports only young objects, because earlier leaders had the time to report the others. The API
 * server still has the Events of young objects, and refuses a repetition.
 */
const START_MS = 60_000;
const YOUNG_MS = 10 * 60_000;
/** Maximum number of names in an Event; the others are counted. */
const LISTED = 5;
/** The reason code of a name that the owner chose to ignore. */
const CHOSEN = "ignored";

/**
 * Writes Events on objects whose names are not mapped, or lose a port: one for each object and reason. The API server
 * refuses a repetition, so nothing is remembered. An object is evaluated when its time comes, so no Event is outdated.
 * If the budget of its namespace is used up, its time comes again.
 */
export class ClaimEvents {
  readonly #deps: ClaimEventsDeps;
  readonly #now: () => number;
  readonly #reconciler: Reconciler;
  readonly #startedAt: number;
  /** Objects whose decisions may have changed, with the time when they are evaluated, earliest first. */
  readonly #touched = new Map<string, number>();

  constructor(deps: ClaimEventsDeps) {
    this.#deps = deps;
    this.#now = deps.now ?? steadyNow;
    this.#startedAt = this.#now();
    this.#reconciler = new Reconciler({
      reconcile: async () => ({ requeueAfter: await this.#reportDue() }),
      ...(deps.startTimer && { startTimer: deps.startTimer }),
      // An object that cannot be evaluated affects only itself: it is evaluated again only after a change.
      retry: {
        backoff: createBackoff(SETTLE_MS, SETTLE_MS),
        onError: (error) => deps.log.error({ code: "object-failed" }, describeError(error)),
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
    this.#touched.set(object, this.#now() + SETTLE_MS);
    this.#reconciler.enqueue(SETTLE_MS);
  }

  /** Reports the objects whose time has come. Returns the delay until the next one, in milliseconds. */
  async #reportDue(): Promise<number | undefined> {
    const slice = timeSlices();
    for (const [object, dueAt] of this.#touched) {
      if (dueAt > this.#now()) break;
      this.#touched.delete(object);
      await this.#report(object);
      await slice();
    }
    const [dueAt] = this.#touched.values();
    return dueAt === undefined ? undefined : Math.max(0, dueAt - this.#now());
  }

  #isOld({ since }: ReportedClaim): boolean {
    const isStart = this.#now() - this.#startedAt < START_MS;
    return isStart && this.#deps.wallClock() - Date.parse(since) >= YOUNG_MS;
  }

  /** Writes the Events of an object, as far as the budget of its namespace allows. */
  async #report(object: string): Promise<void> {
    const { source, events, log, plan } = this.#deps;
    const resource = source.resourceOf?.(object);
    const [first] = plan.decisionsOf(object);
    if (resource === undefined || first === undefined || this.#isOld(first)) return;
    const { kind, namespace, name } = first.from;
    if (events.waitMs(namespace) > 0) return this.#evaluateLater(object);
    const refusals = this.#refusalsOf(object);
    if (refusals.size === 0) return;
    try {
      const path = resourcePath({ ...resource, ...(namespace !== "" && { namespace }) });
      const uid = await this.#uidOf(path, name);
      if (uid === undefined) return;
      const apiVersion = resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
      for (const [code, names] of refusals) {
        if (events.waitMs(namespace) > 0) return this.#evaluateLater(object);
        const { text, harmless = false, mapped = false } = adviceOn(code);
        events.record({
          type: harmless ? "Normal" : "Warning",
          reason: eventReason(code),
          action: "Map",
          note: `${listOf(names)} ${mapped ? "" : "not "}mapped (${code}): ${text}`,
          regarding: { apiVersion, kind, namespace, name, uid },
          key: `${uid} ${code}`,
        });
      }
    } catch (error) {
      log.debug({ object: show(object), error: describeError(error) }, "no Event could be written");
      this.#evaluateLater(object);
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
      // An object may claim a name twice, for two targets. Most warnings are for the administrator of the cluster.
      const isNews = decision.mapped ? adviceOn(reason?.code ?? "").mapped : !mapped.has(name);
      if (reason === undefined || !isNews || reason.code === CHOSEN) continue;
      getOrAdd(refusals, reason.code, () => new Set<string>()).add(name);
    }
    return refusals;
  }

  /**
   * Reads the uid of an object, because `kubectl describe` finds Events by uid, and we do not store it. `path` is the
   * path of the collection. Undefined: the object is gone.
   */
  async #uidOf(path: string, name: string): Promise<string | undefined> {
    const query = { fieldSelector: `metadata.name=${name}` };
    const { items } = await this.#deps.client.get<ObjectList>(path, query, { accept: METADATA_LIST });
    return items[0]?.metadata.uid;
  }
}

interface ObjectList {
  readonly items: ReadonlyArray<{ readonly metadata: { readonly uid?: string } }>;
}

/** Lists names as the beginning of a sentence. */
function listOf(names: ReadonlySet<string>): string {
  const textOf = (name: string) => (/^[a-z0-9.*-]{1,80}$/.test(name) ? name : show(name));
  return `${listSome([...names], LISTED, textOf)} ${names.size === 1 ? "is" : "are"}`;
}
