import { show } from "#hostmap/hostnames.ts";
import type { Plan, PlannedName } from "#hostmap/plan.ts";
import type { PublishedNames } from "#hostmap/published-names.ts";
import type { RemovalRules } from "#hostmap/removal-guard.ts";
import { isPublished, MAP_VERSION, recoverMap } from "#lib/documents/map-format.ts";
import type { MapWriter } from "#lib/documents/map-writer.ts";
import { describeError, hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import type { ClaimEvents } from "./claim-events/reporter.ts";
import { LeaderMap } from "./leader-map.ts";
import { MapAnnouncements } from "./map-announcements.ts";
import type { PublishPacer } from "./publish-pacer.ts";
import type { Source } from "./sources/types.ts";
import type { TargetAddresses } from "./target-addresses.ts";

/** The result of a publication. */
export interface Publication {
  readonly mapRevision: string;
  /** Each reader receives these bytes. */
  readonly bytes: number;
}

/** The dependencies of the reconciler. `now` is in milliseconds since 1970. */
interface MapReconcilerDeps {
  readonly source: Source;
  readonly plan: Plan;
  readonly addresses: TargetAddresses;
  readonly store: MapWriter;
  readonly removal: RemovalRules;
  readonly pacer: PublishPacer;
  readonly now: () => number;
  readonly log: Logger;
  /** Called after each publication, with the milliseconds since the first change in it. */
  readonly onPublished?: (publication: Publication, lagMs: number) => void;
  readonly onFailed?: (error: unknown) => void;
  /** Called once for each hold. */
  readonly onHeld?: (names: number, of: number, until: number) => void;
  /** Reports the decisions to the owners of objects. */
  readonly claimEvents?: Pick<ClaimEvents, "begin" | "changed"> | undefined;
}

/** Initial delay after a failed publication. It doubles up to `MAX_RETRY_MS`. */
const RETRY_MS = 500;
const MAX_RETRY_MS = 15_000;
/** Delay after a write that was based on another version than the current one. */
const CONFLICT_MS = 100;
/** How long a disputed name waits after the map was lost. */
const LOST_MS = 10 * 60_000;

/**
 * Observe, plan, publish.
 *
 *   source ──> plan ──> published names ──> map
 *                             ^ addresses   (leader only)
 *
 * Every replica observes and plans, so that a new leader starts warm; only the leader publishes. Until everything is
 * known (every source and the store have synced) nothing is published: the last good map stays.
 */
export class MapReconciler {
  readonly #deps: MapReconcilerDeps;
  readonly #reconciler: Reconciler;
  readonly #failures = new LogThrottle();
  #sourceSynced = false;
  #term: Term | undefined;
  /** When the first unpublished change arrived. */
  #changedAt: number | undefined;
  #revision: string | undefined;

  constructor(deps: MapReconcilerDeps) {
    this.#deps = deps;
    const onError = (error: unknown) => {
      deps.onFailed?.(error);
      const reason = describeError(error);
      if (this.#failures.pass("map", { reason }) !== undefined) deps.log.error({ code: "publish-failed" }, reason);
    };
    this.#reconciler = new Reconciler({
      reconcile: () => this.#reconcile(),
      // The backoff applies even if something changes meanwhile.
      retry: { backoff: createBackoff(RETRY_MS, MAX_RETRY_MS), onError, hold: true },
    });
  }

  /** Starts to observe. Nothing is published before `lead`. */
  start(): void {
    const { source, plan, addresses, store, log } = this.#deps;
    source.start(
      (object, claims) => {
        // An object that cannot be evaluated affects only itself: its earlier claims stay, and the source's loop goes
        // on.
        try {
          plan.set(object, claims);
        } catch (error) {
          log.error({ code: "object-failed", object: show(object) }, describeError(error));
        }
        this.enqueue();
      },
      () => {
        this.#sourceSynced = true;
        this.enqueue();
      },
    );
    addresses.start(() => this.enqueue());
    // Most events are echoes of our own writes. They start a run, but their lag is not measured.
    store.start(() => this.#reconciler.enqueue());
  }

  /** Publishes until `signal` aborts. */
  lead(signal: AbortSignal): void {
    if (signal.aborted) return;
    const { log, onHeld, plan } = this.#deps;
    const term: Term = { signal, announcements: new MapAnnouncements(log, onHeld), map: undefined };
    this.#term = term;
    signal.addEventListener("abort", () => {
      if (this.#term !== term) return;
      this.#term = undefined;
      // From now on the next leader decides what is published. This replica reads it again if it leads again.
      plan.setPublished(() => undefined);
      this.#reconciler.forget();
    });
    this.#reconciler.forget();
    this.enqueue();
  }

  /** True once every source, the store and the addresses have synced. */
  get synced(): boolean {
    return this.#sourceSynced && this.#deps.store.synced && this.#deps.addresses.synced;
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    const { source, store, addresses } = this.#deps;
    return Math.max(
      store.inactiveMs ?? 0,
      addresses.inactiveMs ?? 0,
      ...source.state().map((state) => state.inactiveMs ?? 0),
    );
  }

  /** The names that the leader publishes; undefined on a follower, and until the leader's first run. */
  get publishedNames(): PublishedNames | undefined {
    return this.#term?.map?.names;
  }

  /** The revision of the map that this replica published last. */
  get revision(): string | undefined {
    return this.#revision;
  }

  /** Evaluates the claims of a namespace again, after its permissions changed. */
  reevaluate(namespace: string): void {
    this.#deps.plan.reevaluate(namespace);
    this.enqueue();
  }

  /** Evaluates claims again whose names were, or might be, names of Services. */
  reevaluateServiceNames(): void {
    this.#deps.plan.reevaluateServiceNames();
    this.enqueue();
  }

  /** Enqueues a run after a change. It publishes at once if the pacer allows it. */
  enqueue(): void {
    this.#changedAt ??= this.#deps.now();
    this.#reconciler.enqueue();
  }

  /** Resolves when the run in progress and every watch have ended. */
  async stop(): Promise<void> {
    const stopped = this.#reconciler.stop();
    this.#term = undefined;
    const { source, addresses, store } = this.#deps;
    await Promise.all([stopped, source.stop(), addresses.stop(), store.stop()]);
  }

  async #reconcile(): Promise<ReconcileResult | undefined> {
    const term = this.#term;
    // A follower's plan is kept up to date too: status shows it, and a new leader starts warm.
    if (term === undefined) this.#takePlan();
    if (term === undefined || !this.synced) return undefined;
    const { pacer, now } = this.#deps;
    const waitMs = pacer.delay(now());
    if (waitMs > 0) return { requeueAfter: waitMs };
    const since = this.#changedAt;
    this.#changedAt = undefined;
    try {
      const { names } = await this.#publishChanges(term, since);
      if (this.#failures.end("map") !== undefined) this.#deps.log.info({ code: "publish-failed" }, "it works again");
      const deadlines = [names.nextDeadline(), this.#deps.plan.nextDeadline()].filter((time) => time !== undefined);
      return { requeueAfter: deadlines.length === 0 ? undefined : Math.min(...deadlines) - now() };
    } catch (error) {
      this.#changedAt = since ?? this.#changedAt;
      // A former leader does not retry.
      if (term.signal.aborted || hasCode(error, "term-over")) return undefined;
      if (statusOf(error) !== 409) throw error;
      await this.#deps.store.refresh();
      return { requeueAfter: CONFLICT_MS };
    }
  }

  async #publishChanges(term: Term, since: number | undefined): Promise<LeaderMap> {
    const { addresses, pacer, now, store, onPublished } = this.#deps;
    term.map ??= await this.#takeOver(term);
    const { map, announcements } = term;
    map.update(this.#takePlan(), addresses.targets(), now());
    map.settle(now());
    const rendered = await map.render();
    const { hold } = map.names;
    announcements.hold(hold);
    announcements.overflow(rendered.leftOut);
    const { revision, bytes } = rendered;
    // It differs after our own change, or because somebody edited it.
    if (!isPublished(store.current, rendered, hold)) {
      term.signal.throwIfAborted();
      const begun = now();
      await store.write(rendered, hold);
      pacer.spend(begun, bytes);
      onPublished?.({ mapRevision: revision, bytes }, since === undefined ? 0 : now() - since);
    }
    this.#revision = revision;
    return map;
  }

  /** A new leader starts from the published map, not from an empty one. */
  async #takeOver(term: Term): Promise<LeaderMap> {
    const { addresses, plan, source, store, now, removal, log, claimEvents } = this.#deps;
    // The watch may not have the last write of the former leader yet, and with it the holders of its names.
    await store.refresh();
    const { lines, flaw } = await recoverMap(store.current);
    term.signal.throwIfAborted();
    const published = addresses.published();
    if (flaw?.code === MAP_VERSION)
      throw new SwitchbackError("data-corrupt", `the published map is left as it is: ${flaw.text}`);
    // Without targets, this is a new installation.
    if (flaw !== undefined && published.length > 0) {
      log.error({ code: "map-lost" }, `the map is written again from what can be read: ${flaw.text}`);
      plan.loseHolders(now() + LOST_MS);
    }
    const map = new LeaderMap(removal, plan, lines, published);
    source.keep?.(map.names.lines);
    addresses.lead(map.targetsInUse(), term.signal);
    this.#takePlan();
    map.releaseUnplanned(now());
    claimEvents?.begin(term.signal, (name) => lines.has(name));
    return map;
  }

  #takePlan(): ReadonlyMap<string, PlannedName | undefined> {
    const { plan, addresses, now } = this.#deps;
    const changes = plan.takeChanges(now());
    const touched = plan.takeTouched();
    // Before the takeover all objects are new, and `begin` looks at each of them.
    if (this.#term?.map !== undefined) this.#deps.claimEvents?.changed(touched);
    // Before the sources have synced, it is not known which targets are no longer needed.
    if (this.#sourceSynced) addresses.use(plan.targets, (target, last) => plan.exampleOf(target, last));
    return changes;
  }
}

/** The state of a leader from `lead` until its signal aborts. */
interface Term {
  readonly signal: AbortSignal;
  readonly announcements: MapAnnouncements;
  map: LeaderMap | undefined;
}
