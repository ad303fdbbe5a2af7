import { hasCode, SwitchbackError } from "../errors/errors.ts";
import type { Logger } from "../telemetry/log.ts";
import { METADATA_LIST, METADATA_WATCH } from "./accept.ts";
import { type Backoff, createBackoff } from "./backoff.ts";
import { createCache, type ObjectCache, type ObjectChange } from "./cache.ts";
import type { KubeClient } from "./client.ts";
import { isFromTheFuture } from "./future.ts";
import { listPages, PAGE_SIZE } from "./list.ts";
import { retryAfterOf, watchStatusError } from "./status.ts";
import { between, pause, steadyNow, yieldToLoop } from "./time.ts";
import type { ApiObject, WatchEvent } from "./types.ts";
import { createStateKeeper, isUnavailable, type StateKeeper, type WatchState } from "./watch-state.ts";

/** Milliseconds, unless said otherwise. Ranges are drawn from anew each time, so that replicas spread out. */
export interface WatchTimings {
  /** Longest silence of a watch before it is opened again: a dead connection gives no other sign. */
  idleMs: number;
  /** How long the server is asked to keep a watch open, seconds. */
  watchSeconds: readonly [number, number];
  /** How often everything is listed again, watch or no watch: whatever was missed comes with it. */
  relistMs: readonly [number, number];
  /** How soon such a list is tried again if it fails; the watch goes on in the meantime. */
  relistRetryMs: number;
  backoffMs: number;
  backoffCapMs: number;
  /** Longest pause after 403 and 404. The first are short: an API server that has just begun refuses everybody for a moment. */
  unavailableCapMs: number;
  /** A watch open this long resets the backoff. */
  healthyMs: number;
  /** A watch that ends sooner than this without an event counts as failed. */
  shortMs: number;
  /** Deadline of one page of a list. */
  pageMs: number;
}

const WATCH_TIMINGS: WatchTimings = {
  idleMs: 90_000,
  watchSeconds: [300, 600],
  relistMs: [30 * 60_000, 60 * 60_000],
  relistRetryMs: 60_000,
  backoffMs: 250,
  backoffCapMs: 5_000,
  unavailableCapMs: 30_000,
  healthyMs: 60_000,
  shortMs: 1_000,
  pageMs: 30_000,
};

/** P is what is kept of an object, T what the objects are taken to be. */
export interface WatchOptions<P, T = ApiObject> {
  client: Pick<KubeClient, "get" | "stream">;
  /** Path of the collection, of one namespace or of all. One object is watched with `fieldSelector: "metadata.name=x"`. */
  path: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Only the metadata of each object is asked for; `project` sees nothing else. */
  metadataOnly?: boolean;
  pageSize?: number;
  /** Picks what is needed; only this is kept. Must copy what it takes: a value that holds the object keeps all of it. */
  project(object: T): P;
  /** Called for each change, also while the first list comes in. Should only note the key: watching waits for it. What it throws is logged. */
  onChange: (change: ObjectChange<P>) => void;
  /** Called once, after the first complete list. */
  onSynced?: () => void;
  log: Logger;
  now?: () => number;
  random?: () => number;
  timings?: Partial<WatchTimings>;
}

export interface Informer<P> {
  readonly state: WatchState;
  /** The last known picture, live. */
  objects(): ReadonlyMap<string, P>;
  /** No handler is called once it is called; resolves when nothing of the watch runs any more. */
  stop(): Promise<void>;
}

/** What the loop carries from round to round. */
interface Loop<P> {
  readonly options: WatchOptions<P>;
  readonly timings: WatchTimings;
  readonly now: () => number;
  readonly random: () => number;
  readonly cache: ObjectCache<P>;
  readonly keeper: StateKeeper;
  readonly backoff: Backoff;
  readonly slowBackoff: Backoff;
  readonly stopped: AbortSignal;
  /** Where the next watch begins; none: list first. */
  resourceVersion: string | undefined;
  relistAt: number;
}

/**
 * Lists and then watches, for ever: every failure, of whatever kind, comes back to one place and leads to the next round.
 * What was known stays known until a complete list or an event says otherwise.
 */
export function watchObjects<P, T = ApiObject>(options: WatchOptions<P, T>): Informer<P> {
  return start(options as WatchOptions<P, unknown> as WatchOptions<P>);
}

function start<P>(options: WatchOptions<P>): Informer<P> {
  const stop = new AbortController();
  const now = options.now ?? steadyNow;
  const random = options.random ?? Math.random;
  const timings = { ...WATCH_TIMINGS, ...options.timings };
  const keeper = createStateKeeper(options.path, options.log, now);
  const loop: Loop<P> = {
    options,
    timings,
    now,
    random,
    keeper,
    cache: createCache(options.project, (key, error) => keeper.handlerFailed(`projection of ${key}`, error)),
    backoff: createBackoff(timings.backoffMs, timings.backoffCapMs, random),
    slowBackoff: createBackoff(timings.backoffMs * 4, timings.unavailableCapMs, random),
    stopped: stop.signal,
    resourceVersion: undefined,
    relistAt: 0,
  };
  const running = run(loop);
  return {
    get state() {
      return keeper.state;
    },
    objects: () => loop.cache.values,
    async stop() {
      stop.abort();
      await running;
    },
  };
}

async function run<P>(loop: Loop<P>): Promise<void> {
  const { stopped, keeper, now } = loop;
  // The caller's own set-up comes first: no handler runs before `watchObjects` has returned.
  await yieldToLoop();
  while (!stopped.aborted) {
    try {
      const resumes = loop.resourceVersion !== undefined && now() < loop.relistAt;
      if (!resumes) await relist(loop);
      if (!stopped.aborted) await follow(loop, loop.resourceVersion ?? "", resumes);
    } catch (error) {
      if (stopped.aborted) return;
      keeper.failed(error);
      await pause(afterFailure(loop, error), stopped);
    }
  }
}

/** The pause before the next round, milliseconds. */
function afterFailure<P>(loop: Loop<P>, error: unknown): number {
  if (hasCode(error, "kube-expired")) loop.resourceVersion = undefined;
  const backoff = isUnavailable(error) ? loop.slowBackoff : loop.backoff;
  return backoff.next(retryAfterOf(error));
}

async function relist<P>(loop: Loop<P>): Promise<void> {
  const { options, timings, keeper, cache, now, random, stopped } = loop;
  const first = !keeper.state.synced;
  loop.relistAt = now() + timings.relistRetryMs;
  const coming = cache.beginRelist();
  const version = await listPages<ApiObject>({
    client: options.client,
    path: options.path,
    query: { limit: options.pageSize ?? PAGE_SIZE, ...selectors(options) },
    options: {
      timeoutMs: timings.pageMs,
      signal: stopped,
      ...(options.metadataOnly ? { accept: METADATA_LIST } : {}),
    },
    onPage: (items) => {
      keeper.contact();
      coming.add(items);
    },
    restart: coming.restart,
  });
  let changes = 0;
  for (const change of coming.finish()) {
    emit(loop, change);
    if (++changes % PAGE_SIZE === 0) await yieldToLoop();
    if (stopped.aborted) return;
  }
  loop.resourceVersion = version;
  loop.relistAt = now() + between(...timings.relistMs, random);
  loop.slowBackoff.reset();
  keeper.listed(version);
  if (first) guarded(loop, "onSynced", () => options.onSynced?.());
}

/**
 * One watch, to its end. Returns when the next may follow at once, throws when something was wrong. One that `resumes` begins at a version
 * of earlier, which may be from before a restore: that is asked meanwhile.
 */
async function follow<P>(loop: Loop<P>, resourceVersion: string, resumes: boolean): Promise<void> {
  const { options, timings, keeper, now, random, stopped } = loop;
  const seconds = watchSeconds(loop, between(...timings.watchSeconds, random));
  let openedAt: number | undefined;
  let events = 0;
  let healthy: NodeJS.Timeout | undefined;
  const ending = new AbortController();
  const signal = AbortSignal.any([stopped, ending.signal]);
  try {
    const query = { watch: true, allowWatchBookmarks: true, resourceVersion, timeoutSeconds: seconds };
    const end = await options.client.stream(
      options.path,
      { ...query, ...selectors(options) },
      {
        signal,
        ...(options.metadataOnly ? { accept: METADATA_WATCH } : {}),
        idleMs: timings.idleMs,
        maxMs: (seconds + 30) * 1000,
        onOpen: () => {
          openedAt = now();
          keeper.opened();
          healthy = setTimeout(() => keeper.healthy(), timings.shortMs);
          if (resumes) void endIfRestored(loop, resourceVersion, ending);
        },
        onLine: (line) => {
          if (stopped.aborted) return;
          keeper.contact();
          if (takeIn(loop, line)) events++;
        },
      },
    );
    if (end === "closed" && events === 0 && now() - (openedAt ?? now()) < timings.shortMs) {
      throw new SwitchbackError("kube-unreachable", `watch of ${options.path}: closed as soon as it was opened`);
    }
  } catch (error) {
    // What was sent made no sense: only a list tells where we stand.
    if (hasCode(error, "data-corrupt")) loop.relistAt = 0;
    throw error;
  } finally {
    clearTimeout(healthy);
    ending.abort();
    if (openedAt !== undefined && now() - openedAt >= timings.healthyMs) loop.backoff.reset();
  }
}

/** Ends a watch that begins in the future. If that cannot be told the watch goes on: the next one asks again. */
async function endIfRestored<P>(loop: Loop<P>, resourceVersion: string, ending: AbortController): Promise<void> {
  const { options, timings } = loop;
  const accept = options.metadataOnly ? { accept: METADATA_LIST } : {};
  const read = { timeoutMs: timings.pageMs, signal: ending.signal, ...accept };
  const request = { path: options.path, query: selectors(options), options: read };
  if (!(await isFromTheFuture(options.client, resourceVersion, request).catch(() => false))) return;
  const text = `watch of ${options.path}: the API server has not come to version ${resourceVersion} again: it was restored`;
  ending.abort(new SwitchbackError("kube-expired", text));
}

/** A watch ends in time for the next full list. */
function watchSeconds<P>({ relistAt, now }: Loop<P>, drawn: number): number {
  return Math.max(1, Math.min(drawn, Math.ceil((relistAt - now()) / 1000)));
}

/** Takes in one line. Gives whether it was a change of an object (and not a bookmark). */
function takeIn<P>(loop: Loop<P>, line: string): boolean {
  const { cache, options } = loop;
  const event = parseEvent(line);
  if (event.type === "ERROR") throw watchStatusError(`watch of ${options.path}`, event.object);
  const version = event.object.metadata?.resourceVersion;
  if (!version) throw new SwitchbackError("data-corrupt", `watch event ${event.type} without a resourceVersion`);
  if (event.type !== "BOOKMARK") {
    const change = event.type === "DELETED" ? cache.remove(event.object) : cache.put(event.object);
    if (change) emit(loop, change);
  }
  loop.resourceVersion = version;
  loop.keeper.version(version);
  return event.type !== "BOOKMARK";
}

const EVENT_TYPES = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"];

function parseEvent(line: string): WatchEvent {
  try {
    const event = JSON.parse(line) as Partial<WatchEvent> | null;
    if (event?.type && EVENT_TYPES.includes(event.type) && event.object) return event as WatchEvent;
  } catch {
    // said below
  }
  throw new SwitchbackError("data-corrupt", `a watch line of ${line.length} characters is not a watch event`);
}

function emit<P>(loop: Loop<P>, change: ObjectChange<P>): void {
  guarded(loop, `onChange of ${change.key}`, () => loop.options.onChange(change));
}

/** Runs a handler. One that throws, or rejects although it should return nothing, is logged and changes nothing here. */
function guarded<P>(loop: Loop<P>, what: string, handler: () => unknown): void {
  const failed = (error: unknown) => loop.keeper.handlerFailed(what, error);
  try {
    const result = handler();
    if (result instanceof Promise) result.catch(failed);
  } catch (error) {
    failed(error);
  }
}

function selectors({ labelSelector, fieldSelector }: Pick<WatchOptions<unknown>, "labelSelector" | "fieldSelector">) {
  return { labelSelector, fieldSelector };
}
