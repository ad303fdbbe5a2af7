import type { Plan } from "#hostmap/plan.ts";
import type { PublishedNames, RemovalHold } from "#hostmap/published-names.ts";
import type { Config } from "#lib/config/schema.ts";
import { isPublished, MAP_VERSION, mapOf, type RenderedMap, recoverMap } from "#lib/documents/map-format.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import type { MapWriter } from "#lib/documents/map-writer.ts";
import { describeError, hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import type { ClaimEvents } from "./claim-events/reporter.ts";
import type { TargetAddresses } from "./front-reconciler.ts";
import { LeaderMap } from "./leader-map.ts";
import type { PublicationMetrics } from "./metrics.ts";
import type { Pipeline } from "./pipeline.ts";

interface LoopDeps {
  readonly source: Pick<Pipeline, "start" | "decide" | "settled" | "isRead" | "synced" | "state" | "stop">;
  readonly plan: Plan;
  readonly addresses: TargetAddresses;
  readonly store: MapWriter;
  readonly rules: Config["map"];
  /** How many processes read the map, besides webhooks and controllers. Default: none. */
  readonly readers?: (() => number) | undefined;
  /** Milliseconds since 1970, by a clock that never jumps. */
  readonly now: () => number;
  readonly log: Logger;
  readonly metrics?: PublicationMetrics | undefined;
  /** Called once for each hold. */
  readonly onHeld?: ((text: string) => void) | undefined;
  /** Reports the decisions to the owners of objects. */
  readonly claimEvents?: Pick<ClaimEvents, "changed" | "stop"> | undefined;
}

/** Initial delay after a failed publication. It doubles up to `MAX_RETRY_MS`. */
const RETRY_MS = 500;
const MAX_RETRY_MS = 15_000;
/** Delay after a write that was based on another version than the current one. */
const CONFLICT_MS = 100;
/** Shortest average time between two publications: changes of a second or two go out together. */
const PUBLICATION_MS = 500;
/** Maximum average rate of published bytes. etcd stores each version of the map. */
const BYTES_PER_SECOND = 200_000;
/**
 * Maximum number of readers at the full rate. Each byte is sent to every reader, so with more readers the pace is lower
 * in proportion: the API server sends at most 50 MB/s. Webhooks and controllers are far fewer, so they are not counted.
 */
const READERS = 250;
/** How long a disputed name waits after the map was lost, also if the leader changes meanwhile. */
const LOST_MS = 10 * 60_000;
/**
 * How long readers keep their last map after it was lost, from when the sources are read. Meanwhile DNS gives its first
 * answers (2 s): names that still wait for DNS would be missing from the first new map.
 */
const LOST_QUIET_MS = 5_000;

/**
 * The leader's loop, the whole way of a name:
 *
 *   view ──> findTarget ──> witness ──> policy ──> conflict and quota ──> publish
 *   └────── Pipeline.decide ──────┘   └────────── Plan ─────────────┘   LeaderMap, MapWriter
 *
 * It starts from the published map, and lives as long as a leader's term. Without a term it writes nothing, as for
 * `switchback status --from`.
 */
export class Loop {
  readonly #deps: LoopDeps;
  readonly #reconciler: Reconciler;
  /** What has been reported of failures, of holds and of a full map. */
  readonly #said = new LogThrottle();
  /** The leader's term. Undefined: nothing is written. */
  #term: AbortSignal | undefined;
  /** Undefined: the published map was not read yet. */
  #map: LeaderMap | undefined;
  /** When the map was lost. */
  #lostAt: number | undefined;
  /** When the time of the last publication is used up. */
  #nextAt = 0;
  /** Until then readers keep their last map, because it was lost. Infinite until the sources are read. */
  #quietUntil = 0;
  /** When the first unpublished change arrived. */
  #changedAt: number | undefined;
  #revision: string | undefined;
  #offer: Parameters<MapReader["start"]>[0] = () => {};
  /** Offers each map that this leader publishes, or finds published. For one reader, from before `start`. */
  readonly maps: MapReader = {
    start: (found) => {
      this.#offer = found;
      return { stop: async () => {} };
    },
  };

  constructor(deps: LoopDeps) {
    this.#deps = deps;
    const onError = (error: unknown) => {
      // A former leader does not retry.
      if (this.#term?.aborted || hasCode(error, "term-over")) return;
      deps.metrics?.failed();
      const reason = describeError(error);
      if (this.#said.pass("map", { reason }) !== undefined) deps.log.error({ code: "publish-failed" }, reason);
    };
    this.#reconciler = new Reconciler({
      reconcile: () => this.#round(),
      // The backoff applies even if something changes meanwhile.
      retry: { backoff: createBackoff(RETRY_MS, MAX_RETRY_MS), onError, hold: true },
    });
  }

  /** Publishes until `term` aborts. Without a term, it only decides. */
  start(term?: AbortSignal): void {
    if (term?.aborted) return;
    this.#term = term;
    const { source, addresses, store } = this.#deps;
    source.start(() => this.enqueue());
    addresses.start(() => this.enqueue());
    // Most events are echoes of our own writes. They start a run, but their lag is not measured.
    store.start(() => this.#reconciler.enqueue());
    this.#reconciler.enqueue();
  }

  /** Whether every source, the store and the addresses have been read. */
  get synced(): boolean {
    const { source, store, addresses } = this.#deps;
    return source.synced && store.synced && addresses.synced;
  }

  /** Whether everything that can be read has been decided. */
  get isRead(): boolean {
    return this.#map !== undefined && this.#deps.source.isRead;
  }

  /** The longest time, in milliseconds, since a watch last received or tried anything. */
  get inactiveMs(): number {
    const { source, store, addresses } = this.#deps;
    const times = [store, addresses, ...source.state()].map(({ inactiveMs }) => inactiveMs ?? 0);
    return Math.max(...times);
  }

  /** The names that the leader publishes. Undefined: it is no leader, or the published map was not read yet. */
  get publishedNames(): PublishedNames | undefined {
    return this.#term?.aborted === false ? this.#map?.names : undefined;
  }

  /** The revision of the map that this replica published last. */
  get revision(): string | undefined {
    return this.#revision;
  }

  /** Enqueues a round after a change. It publishes at once if the pace allows it. */
  enqueue(): void {
    this.#changedAt ??= this.#deps.now();
    this.#reconciler.enqueue();
  }

  /** Resolves when the round in progress and every watch have ended. */
  async stop(): Promise<void> {
    // A round may start the sources.
    await this.#reconciler.stop();
    const { source, addresses, store, claimEvents } = this.#deps;
    await Promise.all([source.stop(), addresses.stop(), store.stop(), claimEvents?.stop()]);
  }

  /** One round. Everything that decides about a name happens here, from top to bottom. */
  async #round(): Promise<ReconcileResult | undefined> {
    const { source, plan, addresses, store, now, claimEvents } = this.#deps;
    if (!store.synced || !addresses.synced) return undefined;
    this.#map ??= await this.#takeOver();
    const map = this.#map;

    // View, findTarget, witness, policy.
    const nextMs = await source.decide();
    const { isRead } = source;
    const isComplete = isRead && source.synced;
    const decideAt = nextMs === undefined ? undefined : now() + nextMs;
    // A name that comes and goes between two publications is never published.
    if (this.#nextAt > now()) return this.#againAt(this.#nextAt, decideAt);

    // Conflict and quota.
    const since = this.#changedAt;
    this.#changedAt = undefined;
    const lostUntil = this.#lostUntil();
    plan.loseHolders(lostUntil !== undefined);
    const changes = plan.takeChanges();
    if (isRead) claimEvents?.changed(plan.takeTouched());
    const { targets } = plan;
    // A name that leaves, or that waits for the address of another target, still leads to its last one.
    const inUse = new Set(targets.keys()).union(map.targetsInUse());
    addresses.use(isComplete ? inUse : inUse.union(addresses.asked()), (target, last) =>
      last !== undefined && plan.hasTarget(last, target) ? last : targets.get(target),
    );

    // Publish.
    map.update(changes, addresses.targets(), now(), isComplete);
    source.settled(map.settle(now()).union(changes));
    if (isRead) this.#quietUntil = Math.min(this.#quietUntil, now() + LOST_QUIET_MS);
    const quietUntil = isRead && this.#quietUntil > now() ? this.#quietUntil : undefined;
    const mayPublish = isRead && quietUntil === undefined && this.#term?.aborted === false;
    if (!mayPublish) this.#changedAt = since ?? this.#changedAt;
    else if (!(await this.#publish(map, since))) return { requeueAfter: CONFLICT_MS };
    return this.#againAt(quietUntil, decideAt, map.names.nextDeadline(), lostUntil);
  }

  /** Until when disputed names wait. Undefined: they do not wait. */
  #lostUntil(): number | undefined {
    const until = (this.#lostAt ?? Number.NEGATIVE_INFINITY) + LOST_MS;
    return this.#deps.now() < until ? until : undefined;
  }

  /** Runs again at the first of these times. */
  #againAt(...times: readonly (number | undefined)[]): ReconcileResult {
    const deadlines = times.filter((time) => time !== undefined);
    const now = this.#deps.now();
    return { requeueAfter: deadlines.length === 0 ? undefined : Math.max(0, Math.min(...deadlines) - now) };
  }

  /**
   * Writes the map if it differs. `since` is the time of the first change in it. False: somebody else wrote the map,
   * too, so it has to be compared again.
   */
  async #publish(map: LeaderMap, since: number | undefined): Promise<boolean> {
    const { store, now, log, metrics } = this.#deps;
    try {
      const rendered = await map.render();
      const { hold } = map.names;
      const notes = { hold, lostAt: this.#lostUntil() && this.#lostAt };
      this.#announce(hold, rendered.leftOut);
      const { revision, bytes } = rendered;
      // It differs after our own change, or because somebody edited it.
      if (!isPublished(store.current, rendered, notes)) {
        this.#term?.throwIfAborted();
        const begun = now();
        await store.write(rendered, notes);
        this.#nextAt = begun + this.#costMs(bytes);
        const lagMs = since === undefined ? 0 : now() - since;
        metrics?.published(bytes, lagMs);
        log.info({ mapRevision: revision, bytes, lagMs }, "map published");
      }
      this.#offerOnce(rendered);
      if (this.#said.end("map")) log.info({ code: "publish-failed" }, "it works again");
      return true;
    } catch (error) {
      this.#changedAt = since ?? this.#changedAt;
      if (statusOf(error) !== 409) throw error;
      await store.refresh();
      return false;
    }
  }

  #offerOnce(rendered: RenderedMap): void {
    if (rendered.revision === this.#revision) return;
    this.#revision = rendered.revision;
    this.#offer(mapOf(rendered, this.#deps.store.current));
  }

  /** The time until the next publication, milliseconds. Both averages hold. */
  #costMs(bytes: number): number {
    const { readers = () => 0 } = this.#deps;
    const sent = bytes * Math.max(1, readers() / READERS);
    return Math.max(PUBLICATION_MS, (sent / BYTES_PER_SECOND) * 1000);
  }

  /** Reports a held removal and a full map when they begin or change, not while they last. */
  #announce(hold: RemovalHold | undefined, leftOut: number): void {
    const { log, onHeld } = this.#deps;
    if (hold === undefined) this.#said.end("hold");
    else if (this.#said.pass("hold", { reason: `${hold.since}` }) !== undefined) {
      const until = new Date(hold.until).toISOString();
      const text = `${hold.names} of ${hold.of} names would be removed at once; held back until ${until}`;
      log.warn({ code: "removal-held" }, text);
      onHeld?.(text);
    }
    if (leftOut === 0) this.#said.end("full");
    else if (this.#said.pass("full", { reason: `${leftOut}` }) !== undefined)
      log.error({ code: "map-full", names: leftOut }, "names do not fit into the map");
  }

  /** Starts from the published map, not from an empty one. Throws `data-corrupt` if a later release wrote it. */
  async #takeOver(): Promise<LeaderMap> {
    const { rules, addresses, plan, store, now, log } = this.#deps;
    const term = this.#term;
    // The watch may not have the last write of the former leader yet, and with it the holders of its names.
    const { lines, flaw, lostAt } = await recoverMap(term ? await store.refresh() : store.current, now());
    const published = addresses.published();
    if (term !== undefined) {
      term.throwIfAborted();
      if (flaw?.code === MAP_VERSION)
        throw new SwitchbackError("data-corrupt", `the published map is left as it is: ${flaw.text}`);
      this.#lostAt = lostAt;
      // Without targets, this is a new installation.
      if (flaw !== undefined && published.length > 0) {
        log.error({ code: "map-lost" }, `the map is written again from what can be read: ${flaw.text}`);
        this.#lostAt = now();
        this.#quietUntil = Number.POSITIVE_INFINITY;
      }
    }
    const map = new LeaderMap(rules, plan, lines, published);
    addresses.use(map.targetsInUse().union(addresses.asked()));
    if (term !== undefined) addresses.lead(term);
    return map;
  }
}
