import { describeError } from "../errors/errors.ts";
import type { Plan, PlannedName } from "../hostmap/plan.ts";
import { PublishedNames, type RemovalRules } from "../hostmap/published-names.ts";
import type { MapStore } from "../snapshot/map-store.ts";
import { MapWriter, type Publication } from "../snapshot/map-writer.ts";
import { Shards } from "../snapshot/shards.ts";
import type { Logger } from "../telemetry/log.ts";
import type { PublishPacer } from "./publish-pacer.ts";
import type { Source } from "./sources/types.ts";
import type { TargetAddresses } from "./target-addresses.ts";

/** What the loop works on. `now` is in milliseconds since 1970. */
interface MapReconcilerDeps {
  readonly source: Source;
  readonly plan: Plan;
  readonly addresses: TargetAddresses;
  readonly store: MapStore;
  readonly removal: RemovalRules;
  readonly pacer: PublishPacer;
  readonly now: () => number;
  readonly log: Logger;
  /** Told of each publication, with the milliseconds since the first change that it carries. */
  readonly onPublished?: (publication: Publication, lagMs: number) => void;
  readonly onFailed?: (error: unknown) => void;
  /** Told once of each hold. */
  readonly onHeld?: (names: number, of: number, until: number) => void;
}

/** First wait after a failed publication; doubles up to `MAX_RETRY_MS`. */
const RETRY_MS = 500;
const MAX_RETRY_MS = 15_000;
/** `setTimeout` overflows above 2^31-1 ms. */
const MAX_SLEEP_MS = 3_600_000;

/**
 * The one loop: observe, plan, publish.
 *
 *   source ──> plan ──> ledger ──> shards ──> publisher ──> store
 *                         ^ addresses             (leader only)
 *
 * Every replica observes and plans, so that a new leader starts warm; only the leader has a ledger and publishes. Whatever is
 * not known yet (a source that has not synced, a store that has not answered) stops the turn: the last good map stays.
 */
export class MapReconciler {
  readonly #deps: MapReconcilerDeps;
  readonly #publisher: MapWriter;
  #sourceSynced = false;
  #leading: Leading | undefined;
  #running = false;
  #again = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;
  /** A turn is due at once. */
  #due = false;
  #changedAt: number | undefined;
  #retryMs = RETRY_MS;
  /** No turn before this time: the last publication failed. */
  #retryAt = 0;

  constructor(deps: MapReconcilerDeps) {
    this.#deps = deps;
    this.#publisher = new MapWriter(deps.store);
  }

  /** Begins to observe. Nothing is published before `lead`. */
  start(): void {
    const { source, plan, addresses, store } = this.#deps;
    source.start(
      (object, claims) => {
        plan.set(object, claims);
        this.wake();
      },
      () => {
        this.#sourceSynced = true;
        this.wake();
      },
    );
    addresses.start(() => this.wake());
    // Mostly the echo of our own writes: looked at, but not the beginning of a change whose lag is told.
    store.start(() => this.#schedule(0));
  }

  /** Publishes until `signal` aborts. */
  lead(signal: AbortSignal): void {
    if (signal.aborted) return;
    const leading: Leading = { signal, state: undefined };
    this.#leading = leading;
    this.#retryMs = RETRY_MS;
    this.#retryAt = 0;
    signal.addEventListener("abort", () => {
      if (this.#leading === leading) this.#leading = undefined;
    });
    this.wake();
  }

  /** True once every source, the store and the addresses have given their first full view. */
  get synced(): boolean {
    return this.#sourceSynced && this.#deps.store.synced && this.#deps.addresses.synced;
  }

  /** The longest time, in milliseconds, that any watch has neither heard nor tried anything. */
  get inactiveMs(): number {
    const { source, store, addresses } = this.#deps;
    return Math.max(
      store.inactiveMs ?? 0,
      addresses.inactiveMs ?? 0,
      ...source.state().map((state) => state.inactiveMs ?? 0),
    );
  }

  /** The leader's ledger; undefined on a follower, and until the first turn. */
  get ledger(): PublishedNames | undefined {
    return this.#leading?.state?.ledger;
  }

  /** Something changed: a turn follows, at once if the pace allows it. */
  wake(): void {
    this.#changedAt ??= this.#deps.now();
    this.#schedule(0);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#leading = undefined;
    const { source, addresses, store } = this.#deps;
    await Promise.all([source.stop(), addresses.stop(), store.stop()]);
  }

  #schedule(delayMs: number): void {
    if (this.#running) this.#again = true;
    // A turn that is due stays due: put off at each of many changes it would never come.
    if (this.#running || this.#due || this.#stopped) return;
    clearTimeout(this.#timer);
    this.#due = delayMs <= 0;
    this.#timer = setTimeout(() => void this.#turn(), Math.min(delayMs, MAX_SLEEP_MS));
  }

  async #turn(): Promise<void> {
    this.#due = false;
    const leading = this.#leading;
    // A follower's plan is kept up to date too: status shows it, and a new leader starts warm.
    if (leading === undefined) this.#takePlan();
    if (leading === undefined || !this.synced) return;
    const now = this.#deps.now();
    const wait = Math.max(this.#deps.pacer.delay(now), Math.min(this.#retryAt - now, MAX_RETRY_MS));
    if (wait > 0) return this.#schedule(wait);
    this.#running = true;
    this.#again = false;
    const since = this.#changedAt;
    this.#changedAt = undefined;
    try {
      await this.#publishChanges(leading, since);
      this.#retryMs = RETRY_MS;
    } catch (error) {
      this.#changedAt = since ?? this.#changedAt;
      this.#failed(error, leading);
    }
    this.#running = false;
    if (this.#again) this.#schedule(0);
    else this.#sleepUntilDeadline(leading);
  }

  async #publishChanges(leading: Leading, since: number | undefined): Promise<void> {
    const { addresses, pacer, now, onPublished } = this.#deps;
    leading.state ??= this.#takeOver(leading.signal);
    const { ledger, shards } = leading.state;
    this.#plan(leading.state);
    this.#honourConfirmation(ledger);
    for (const name of ledger.settle(now())) shards.set(name, ledger.addressesOf(name) ?? []);
    this.#announceHold(leading.state);
    const published = shards.render();
    this.#announceOverflow(leading.state);
    const edition = { shards: published, targets: addresses.targets(), hold: ledger.hold };
    if (!this.#publisher.isStale(edition)) return;
    const begun = now();
    const publication = await this.#publisher.publish(edition, leading.signal);
    // A target that is found or moves takes the whole map along; counting that would make the changes that follow wait for seconds.
    pacer.spend(begun, leading.state.moved ? 0 : publication.bytes);
    leading.state.moved = false;
    onPublished?.(publication, since === undefined ? 0 : now() - since);
  }

  /** A new leader starts from what is published, not from nothing: names it does not know of must leave as slowly as any other. */
  #takeOver(signal: AbortSignal): LeaderState {
    const { addresses, plan, now, removal } = this.#deps;
    const ledger = new PublishedNames(removal);
    const shards = new Shards();
    const lines = this.#publisher.loadLines();
    ledger.load(lines);
    for (const [name, line] of lines) shards.set(name, line);
    addresses.lead(this.#publisher.loadIndex()?.targets ?? [], signal);
    this.#takePlan();
    for (const name of lines.keys()) if (!plan.planned.has(name)) ledger.release(name, now());
    return { ledger, shards, addresses: new Map(), moved: false, held: undefined, overflowing: 0 };
  }

  #takePlan(): ReadonlyMap<string, PlannedName | undefined> {
    const { plan, addresses } = this.#deps;
    const changes = plan.takeChanges();
    // A source that is still being read says nothing of what is no longer needed.
    if (this.#sourceSynced) addresses.use(plan.targets);
    return changes;
  }

  #plan(state: LeaderState): void {
    const { plan, addresses, now } = this.#deps;
    const want = ({ name, target }: PlannedName) => state.ledger.want(name, state.addresses.get(target) ?? []);
    const changes = this.#takePlan();
    const moved = this.#learnAddresses(state, addresses);
    if (moved.size > 0) {
      state.moved = true;
      for (const planned of plan.planned.values()) if (moved.has(planned.target)) want(planned);
    }
    for (const [name, planned] of changes) {
      if (planned === undefined) state.ledger.release(name, now());
      else want(planned);
    }
  }

  /** The targets that are somewhere else than at the last turn; every name of them has to be looked at again. */
  #learnAddresses(state: LeaderState, addresses: TargetAddresses): ReadonlySet<string> {
    const moved = new Set<string>();
    for (const { name, clusterIPs } of addresses.targets()) {
      const before = state.addresses.get(name);
      if (before !== undefined && before.join() === clusterIPs.join()) continue;
      state.addresses.set(name, clusterIPs);
      moved.add(name);
    }
    return moved;
  }

  #honourConfirmation(ledger: PublishedNames): void {
    const id = this.#deps.store.index()?.confirmed;
    if (id === undefined || ledger.hold === undefined) return;
    const refusal = ledger.confirm(id);
    if (refusal === undefined) this.#deps.log.info({ hold: id }, "a held removal was confirmed");
  }

  #announceHold(state: LeaderState): void {
    const { hold } = state.ledger;
    if (hold?.id === state.held) return;
    state.held = hold?.id;
    if (hold === undefined) return;
    this.#deps.log.warn({ code: "removal-held", ...hold }, "more than half of the names would go at once; held back");
    this.#deps.onHeld?.(hold.names, hold.of, hold.until);
  }

  #announceOverflow(state: LeaderState): void {
    const count = state.shards.overflowing.size;
    if (count === state.overflowing) return;
    state.overflowing = count;
    if (count > 0) this.#deps.log.error({ code: "map-full", names: count }, "names found no room in their shard");
  }

  /** Whatever wakes the loop meanwhile, the next try waits; a leader that has been deposed does not try again. */
  #failed(error: unknown, leading: Leading): void {
    if (leading.signal.aborted) return;
    this.#deps.onFailed?.(error);
    this.#deps.log.error({ code: "publish-failed", retryMs: this.#retryMs }, describeError(error));
    this.#retryAt = this.#deps.now() + this.#retryMs;
    this.#again = true;
    this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS);
  }

  #sleepUntilDeadline(leading: Leading): void {
    const deadline = leading.state?.ledger.nextDeadline();
    if (deadline !== undefined) this.#schedule(Math.max(0, deadline - this.#deps.now()));
  }
}

interface Leading {
  readonly signal: AbortSignal;
  state: LeaderState | undefined;
}

interface LeaderState {
  readonly ledger: PublishedNames;
  readonly shards: Shards;
  /** Addresses of targets as of the last turn. */
  readonly addresses: Map<string, readonly string[]>;
  /** Whether a target's address changed since the last publication. */
  moved: boolean;
  /** Id of the hold that was announced. */
  held: string | undefined;
  /** How many names without room were reported. */
  overflowing: number;
}
