import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { Publisher, PublishOutcome } from "./publisher.ts";
import type { PublisherMap } from "./publisher-map.ts";
import { emptyPublisherState, type PublisherState } from "./publisher-state.ts";
import type { PublisherStateStore, StoredPublisherState } from "./publisher-state-store.ts";
import { ReaderWatch } from "./reader-watch.ts";

interface LoopSettings {
  readonly checkMs: number;
  readonly minIntervalMs: number;
  readonly answerMs: number;
}

interface LoopDeps {
  readonly publisher: Publisher;
  readonly store: Pick<PublisherStateStore, "read" | "write">;
  readonly settings: LoopSettings;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly onWrite?: (result: "ok" | "failed") => void;
}

const RETRY_MS = 1_000;
const MAX_RETRY_MS = 60_000;
/** Time between two questions while readers lack the newest map. */
const ASK_MS = 2_000;
/** If somebody takes a change back this often within this time, it is not made again. */
const TAKEN_BACK_TIMES = 2;
const TAKEN_BACK_MS = 600_000;
/** Maximum number of entries in `takenBack`. */
const MAX_TAKEN_BACK = 10;
/** A mark of a removal expires after this time: somebody began to remove this publisher, and did not finish. */
const LEAVING_MS = 3_600_000;
/** Pause after readers did not get what was published, although they got an earlier publication. */
const PAUSE_MS = 3_600_000;

/**
 * Publishes the newest map, one step at a time, and keeps the publisher's document current. Stops by itself if
 * somebody takes its changes back, or if readers do not get what was written.
 */
export class PublisherLoop {
  readonly #deps: LoopDeps;
  readonly #reconciler: Reconciler;
  readonly #readers: ReaderWatch | undefined;
  #map: PublisherMap | undefined;
  #stored: StoredPublisherState | undefined;
  #state: PublisherState;
  #begun = false;
  /** True if the document was deleted while this process ran: somebody is removing this publisher. */
  #removed = false;
  #wroteAt = Number.NEGATIVE_INFINITY;
  #failure: Reason | undefined;

  constructor(deps: LoopDeps) {
    this.#deps = deps;
    const { publisher, settings } = deps;
    this.#state = emptyPublisherState(publisher.name, publisher.place);
    this.#readers = publisher.readers && new ReaderWatch(publisher.readers, settings.answerMs, deps.now());
    this.#reconciler = new Reconciler({
      reconcile: () => this.#step(),
      retry: {
        backoff: createBackoff(RETRY_MS, MAX_RETRY_MS),
        onError: (error) => this.#failed(error),
      },
    });
  }

  get state(): PublisherState {
    return this.#state;
  }

  /** Why the last step failed; undefined if it did not. */
  get failure(): Reason | undefined {
    return this.#failure;
  }

  /** Publishes a newer map in a later step. */
  offer(map: PublisherMap): void {
    this.#map = map;
    this.#reconciler.enqueue();
  }

  async stop(): Promise<void> {
    await this.#reconciler.stop();
  }

  #failed(error: unknown): void {
    const text = describeError(error);
    this.#deps.onWrite?.("failed");
    if (text !== this.#failure?.text)
      this.#deps.log.warn({ code: "publisher-failed", text }, "publisher: a step failed");
    this.#failure = { code: "publisher-failed", text };
  }

  async #step(): Promise<ReconcileResult | undefined> {
    const { settings } = this.#deps;
    await this.#load();
    const wait = await this.#act();
    this.#failure = undefined;
    return { requeueAfter: Math.max(0, wait ?? settings.checkMs) };
  }

  /** Reads the document, which others may have marked or deleted. */
  async #load(): Promise<void> {
    const { publisher, store, log } = this.#deps;
    this.#stored = await store.read();
    if (this.#stored === undefined) {
      this.#removed = this.#begun;
      if (!this.#begun) this.#state = emptyPublisherState(publisher.name, publisher.place);
      return;
    }
    this.#begun = true;
    this.#removed = false;
    const { state } = this.#stored;
    if (!("code" in state)) this.#state = state;
    else {
      log.warn({ ...state }, "publisher: starts over, without its document");
      this.#state = emptyPublisherState(publisher.name, publisher.place);
    }
  }

  /** @returns milliseconds until the next step; undefined for the time between two checks. */
  async #act(): Promise<number | undefined> {
    const { publisher, now } = this.#deps;
    if (this.#removed || this.#isLeaving() || this.#state.stopped) return undefined;
    if (await this.#hasMoved()) return undefined;
    if ((await this.#takenBack()) === "stop") return undefined;
    const map = this.#map;
    if (map === undefined) return undefined;
    const { pausedUntil } = this.#state;
    if (pausedUntil !== undefined && now() < pausedUntil) return undefined;
    const isNew = map.revision !== this.#state.revision;
    const tooSoon = this.#wroteAt + this.#deps.settings.minIntervalMs - now();
    if (isNew && tooSoon > 0) return Math.min(tooSoon, (await this.#watchReaders()) ?? tooSoon);
    await this.#keepOriginal();
    const outcome = withLeftOut(await publisher.publish(map), map);
    if (isNew && !outcome.refused) {
      this.#wroteAt = now();
      this.#deps.onWrite?.("ok");
      this.#readers?.published(map.revision, this.#state.revision === undefined, now());
    }
    await this.#save(this.#after(map, outcome));
    return await this.#watchReaders();
  }

  #after(map: PublisherMap, { names, leftOut, problem, refused }: PublishOutcome): PublisherState {
    const { now } = this.#deps;
    const { problem: _, pausedUntil: _paused, leaving: _leaving, ...rest } = this.#state;
    const state = { ...rest, place: this.#deps.publisher.place };
    const reported = problem === undefined ? {} : { problem };
    const behindSince = state.behindSince ?? now();
    if (refused) return { ...state, ...reported, behindSince };
    const isNew = map.revision !== state.revision;
    return {
      ...state,
      ...reported,
      names,
      leftOut,
      revision: map.revision,
      since: state.since ?? now(),
      ...(isNew ? { publishedAt: now(), ...(this.#readers && { behindSince }) } : {}),
    };
  }

  #isLeaving(): boolean {
    const { leaving } = this.#state;
    return leaving !== undefined && this.#deps.now() - leaving < LEAVING_MS;
  }

  /**
   * Whether the settings name another place than the one with our text, which would stay there. If so, reports a
   * problem.
   */
  async #hasMoved(): Promise<boolean> {
    const { publisher } = this.#deps;
    const { place, since } = this.#state;
    if (since === undefined || place === publisher.place) return false;
    const text =
      `what was written to the ${place} is still there: set it again, and switch the publisher off, before it ` +
      "writes elsewhere";
    await this.#save({ ...this.#state, problem: { code: "publisher-moved", text } });
    return true;
  }

  /** Checks whether somebody took back what was written. @returns "stop" if that happened too often. */
  async #takenBack(): Promise<"stop" | undefined> {
    const { publisher, now, log } = this.#deps;
    if (this.#state.revision === undefined || publisher.presence === undefined) return undefined;
    const presence = await publisher.presence();
    if (presence.kind === "as-written") return undefined;
    const at = now();
    const entry = { at, ...(presence.by !== undefined && { by: presence.by }) };
    const takenBack = [...this.#state.takenBack, entry].slice(-MAX_TAKEN_BACK);
    const { since: _since, revision: _revision, publishedAt: _at, answered: _answered, ...rest } = this.#state;
    const isStopped = takenBack.filter((each) => at - each.at < TAKEN_BACK_MS).length >= TAKEN_BACK_TIMES;
    const text = `${presence.by ?? "somebody"} took back what was written to the ${publisher.place}`;
    log.warn({ code: "publisher-taken-back", text, stopped: isStopped }, "publisher: taken back");
    const problem = {
      code: "publisher-taken-back",
      text: `${text}, twice within ten minutes: nothing more is written`,
    };
    await this.#save({ ...rest, names: 0, takenBack, ...(isStopped && { problem, stopped: 1 as const }) });
    return isStopped ? "stop" : undefined;
  }

  /** Stores the original before the first write, so that there is never a write without it. */
  async #keepOriginal(): Promise<void> {
    const { publisher } = this.#deps;
    if (this.#stored !== undefined) return;
    const original = await publisher.original?.();
    this.#stored = await this.#deps.store.write(this.#state, original, undefined);
    this.#begun = true;
  }

  /**
   * Checks whether readers get what was written. Takes it out if they do not. @returns milliseconds until the next
   * question; undefined if there is nothing to ask.
   */
  async #watchReaders(): Promise<number | undefined> {
    const { publisher, now, log } = this.#deps;
    const { revision, answered } = this.#state;
    if (this.#readers === undefined || revision === undefined) return undefined;
    const readers = await this.#readers.check(revision, answered?.revision === revision, now);
    if (readers === "waiting") return ASK_MS;
    if (readers === "current") {
      const { behindSince: _, ...state } = this.#state;
      if (answered?.revision !== revision) await this.#save({ ...state, answered: { revision, at: now() } });
      return undefined;
    }
    await publisher.remove();
    const { since: _since, revision: _revision, publishedAt: _at, ...rest } = this.#state;
    const known = answered !== undefined;
    const what = known ? "it is tried again in an hour" : "nothing more is written";
    const text =
      `the cluster's DNS did not answer with what was written to the ${publisher.place}, so it was taken out; ` +
      `${what}`;
    const problem: Reason = { code: "publisher-not-answered", text };
    log.warn({ ...problem }, "publisher: taken out");
    await this.#save({
      ...rest,
      names: 0,
      problem,
      ...(known ? { pausedUntil: now() + PAUSE_MS } : { stopped: 1 as const }),
    });
    return undefined;
  }

  /** Writes the document if it changes. */
  async #save(state: PublisherState): Promise<void> {
    if (JSON.stringify(state) === JSON.stringify(this.#state) && this.#stored !== undefined) return;
    this.#stored = await this.#deps.store.write(state, this.#stored?.original, this.#stored);
    this.#state = state;
  }
}

/** The outcome, including the names that were left out before the publisher got the map. */
function withLeftOut(outcome: PublishOutcome, { leftOut }: PublisherMap): PublishOutcome {
  if (leftOut === undefined || leftOut.count === 0) return outcome;
  return { ...outcome, leftOut: outcome.leftOut + leftOut.count, problem: outcome.problem ?? leftOut.reason };
}
