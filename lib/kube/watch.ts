import { hasCode, SwitchbackError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type Backoff, createBackoff } from "./backoff.ts";
import { cacheKey, createCache, type ObjectCache, type ObjectChange } from "./cache.ts";
import type { KubeClient } from "./client.ts";
import { isFutureVersion } from "./future-version.ts";
import { listPages, PAGE_SIZE } from "./list.ts";
import { retryAfterOf, watchStatusError } from "./status.ts";
import { type ObjectFormat, objectFormat, tableFormat } from "./table.ts";
import { between, pause, steadyNow, timeSlices, yieldToLoop } from "./time.ts";
import type { ApiObject, WatchEvent } from "./types.ts";
import { createStateKeeper, isUnavailable, type StateKeeper, type WatchState } from "./watch-state.ts";

/** Milliseconds, unless noted. A range means a new random value each time, to spread replicas. */
export interface WatchTimings {
  /** Idle timeout after which a watch is reopened. A dead connection has no other symptom. */
  idleMs: number;
  /** The requested duration of a watch (timeoutSeconds), seconds. */
  watchSeconds: readonly [number, number];
  /** How often everything is listed again, to pick up missed changes. */
  relistMs: readonly [number, number];
  /** Delay of the next attempt if such a list fails. The watch continues meanwhile. */
  relistRetryMs: number;
  backoffMs: number;
  backoffCapMs: number;
  /**
   * Longest backoff after 403 and 404. The first delays are short, because an API server that has just started
   * briefly refuses everyone.
   */
  unavailableCapMs: number;
  /** A watch that stays open this long resets the backoff. */
  healthyMs: number;
  /** A watch that ends sooner than this without an event counts as failed. */
  shortMs: number;
  /** Timeout of one page of a list. */
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

/** P is the projection that is kept of an object. T is the assumed type of the objects. */
export interface WatchOptions<P, T = ApiObject> {
  client: Pick<KubeClient, "get" | "stream">;
  /** Path of the collection, of one namespace or all. To watch one object, use `fieldSelector: "metadata.name=x"`. */
  path: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Requests only metadata. `project` gets nothing else. */
  metadataOnly?: boolean;
  /**
   * Requests metadata and these columns of `kubectl get -o wide`. `project` gets a `TableObject`, with them in
   * `columns`.
   */
  columns?: readonly string[];
  pageSize?: number;
  /** See `fromCache` of `listPages`. */
  fromCache?: boolean;
  /**
   * Extracts the needed part. Only this part is kept. It must copy: a value that references the object retains all of
   * it. Undefined: the object is ignored, as if it did not exist.
   */
  project(object: T): P | undefined;
  /**
   * Whether only a part of the object's projection is kept. Then a list projects the object again, even if it is
   * unchanged.
   */
  isPartial?: (key: string) => boolean;
  /** Path of the collection of one namespace, for `Informer.refresh`. */
  pathIn?: (namespace: string) => string;
  /**
   * Called for each change, also during the first list. It blocks the watch, so it should only enqueue the key.
   * Errors are logged.
   */
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
  /** The current state. The map is updated in place. */
  objects(): ReadonlyMap<string, P>;
  /** Replaces what is kept of an object by the result of `change`. Undefined: the object is no longer kept. */
  revise(key: string, change: (value: P) => P | undefined): void;
  /**
   * Lists the objects of one namespace, because `project` may now keep more of them. Needs `pathIn`. If the list fails,
   * it is repeated when the next watch begins.
   */
  refresh(namespace: string): void;
  /** Stops at once and calls no handler any more. Resolves when the watch has ended. */
  stop(): Promise<void>;
}

/** The state of the loop. */
interface Loop<P> {
  readonly options: WatchOptions<P>;
  readonly timings: WatchTimings;
  readonly now: () => number;
  readonly random: () => number;
  readonly cache: ObjectCache<P>;
  readonly format: ObjectFormat;
  readonly keeper: StateKeeper;
  readonly backoff: Backoff;
  readonly slowBackoff: Backoff;
  readonly stopped: AbortSignal;
  /** The version from which the next watch starts. Undefined: list first. */
  resourceVersion: string | undefined;
  relistAt: number;
  /** The namespaces to list again. */
  readonly again: Set<string>;
  /** Lists them. Undefined while no watch is open. */
  listAgain: (() => void) | undefined;
  listing: Promise<void>;
  /** While a namespace is listed: the keys of the objects with events since the request. */
  touched: Set<string> | undefined;
}

/**
 * Lists and then watches until stopped. Every failure is handled in one place and followed by a retry.
 * Known objects are kept until an event or a complete list changes them.
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
    format: options.columns === undefined ? objectFormat(options.metadataOnly === true) : tableFormat(options.columns),
    cache: createCache(
      options.project,
      (key, error) => keeper.handlerFailed(`projection of ${key}`, error),
      options.isPartial,
    ),
    backoff: createBackoff(timings.backoffMs, timings.backoffCapMs, random),
    slowBackoff: createBackoff(timings.backoffMs * 4, timings.unavailableCapMs, random),
    stopped: stop.signal,
    resourceVersion: undefined,
    relistAt: 0,
    again: new Set(),
    listAgain: undefined,
    listing: Promise.resolve(),
    touched: undefined,
  };
  const running = run(loop);
  return {
    get state() {
      return keeper.state;
    },
    objects: () => loop.cache.values,
    revise(key, change) {
      const revised = loop.cache.revise(key, change);
      if (revised) emit(loop, revised);
    },
    refresh(namespace) {
      loop.again.add(namespace);
      loop.listAgain?.();
    },
    async stop() {
      stop.abort();
      await running;
    },
  };
}

async function run<P>(loop: Loop<P>): Promise<void> {
  const { stopped, keeper, now } = loop;
  // No handler runs before `watchObjects` has returned. So the caller can finish its setup.
  await yieldToLoop();
  while (!stopped.aborted) {
    try {
      const resumes = loop.resourceVersion !== undefined && now() < loop.relistAt;
      if (!resumes) await relist(loop);
      if (!stopped.aborted) await follow(loop, loop.resourceVersion ?? "", resumes);
    } catch (error) {
      if (stopped.aborted) return;
      keeper.failed(error);
      await pause(retryDelay(loop, error), stopped);
    }
  }
}

/** The delay before the next attempt, milliseconds. */
function retryDelay<P>(loop: Loop<P>, error: unknown): number {
  if (hasCode(error, "kube-expired")) loop.resourceVersion = undefined;
  const backoff = isUnavailable(error) ? loop.slowBackoff : loop.backoff;
  return backoff.next(retryAfterOf(error));
}

async function relist<P>(loop: Loop<P>): Promise<void> {
  const { options, timings, keeper, cache, now, random, stopped } = loop;
  const first = !keeper.state.synced;
  loop.relistAt = now() + timings.relistRetryMs;
  const relisted = cache.beginRelist();
  const version = await listObjects(loop, options.path, {
    fromCache: options.fromCache === true,
    signal: stopped,
    onItem: relisted.add,
    restart: relisted.restart,
  });
  if (stopped.aborted) return;
  let changes = 0;
  for (const change of relisted.finish()) {
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

/** Lists a path, and emits each change as `onItem` returns it. Returns the resourceVersion of the list. */
async function listObjects<P>(
  loop: Loop<P>,
  path: string,
  list: {
    readonly fromCache?: boolean;
    readonly signal: AbortSignal;
    readonly onItem: (item: ApiObject) => ObjectChange<P> | undefined;
    readonly restart: () => void;
  },
): Promise<string> {
  const { options, timings, keeper, format, now } = loop;
  const { signal, onItem } = list;
  return await listPages<ApiObject>({
    fromCache: list.fromCache === true,
    client: options.client,
    path,
    query: { limit: options.pageSize ?? PAGE_SIZE, ...selectors(options), ...format.query },
    options: { timeoutMs: timings.pageMs, signal, ...accepting(format.listAccept) },
    itemsOf: format.itemsOf,
    onPage: async (items) => {
      keeper.contact();
      const sliceEnd = timeSlices(now);
      for (const item of items) {
        if (signal.aborted) return;
        const change = onItem(item);
        if (change) emit(loop, change);
        const ended = sliceEnd();
        if (ended !== undefined) await ended;
      }
    },
    restart: list.restart,
  });
}

/**
 * Lists the namespaces of `Informer.refresh` while the watch is open. An object with an event since the request is left
 * as it is: its event may be newer than the list. Later events of the others are still to come.
 */
async function listNamespaces<P>(loop: Loop<P>, signal: AbortSignal): Promise<void> {
  const { options, cache, again } = loop;
  for (const namespace of again) {
    const path = options.pathIn?.(namespace);
    if (signal.aborted || path === undefined) return;
    const touched = new Set<string>();
    loop.touched = touched;
    again.delete(namespace);
    try {
      const onItem = (item: ApiObject) => (touched.has(cacheKey(item)) ? undefined : cache.put(item));
      await listObjects(loop, path, { signal, onItem, restart() {} });
    } catch {
      again.add(namespace);
      return;
    } finally {
      loop.touched = undefined;
    }
  }
}

/**
 * Runs one watch to its end. Returns if the next watch may follow at once, and throws on failure. A watch that
 * `resumes` starts at an earlier version, which may be from before a restore of the cluster. That is checked
 * concurrently.
 */
async function follow<P>(loop: Loop<P>, resourceVersion: string, resumes: boolean): Promise<void> {
  const { options, timings, keeper, format, now, random, stopped } = loop;
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
      { ...query, ...selectors(options), ...format.query },
      {
        signal,
        ...accepting(format.watchAccept),
        idleMs: timings.idleMs,
        maxMs: (seconds + 30) * 1000,
        onOpen: () => {
          openedAt = now();
          keeper.opened();
          healthy = setTimeout(() => keeper.healthy(), timings.shortMs);
          loop.listAgain = () => {
            loop.listing = loop.listing.then(() => listNamespaces(loop, signal));
          };
          loop.listAgain();
          if (resumes) void endIfRestored(loop, resourceVersion, ending);
        },
        onLine: (line) => {
          if (stopped.aborted) return;
          keeper.contact();
          if (processLine(loop, line)) events++;
        },
      },
    );
    if (end === "closed" && events === 0 && now() - (openedAt ?? now()) < timings.shortMs) {
      throw new SwitchbackError("kube-unreachable", `watch of ${options.path}: closed as soon as it was opened`);
    }
  } catch (error) {
    // The data was invalid. Only a new list gives a known state.
    if (hasCode(error, "data-corrupt")) loop.relistAt = 0;
    throw error;
  } finally {
    clearTimeout(healthy);
    loop.listAgain = undefined;
    ending.abort();
    if (openedAt !== undefined && now() - openedAt >= timings.healthyMs) loop.backoff.reset();
  }
}

/**
 * Ends a watch that starts from a future version. If the check fails, the watch continues and the next watch checks
 * again.
 */
async function endIfRestored<P>(loop: Loop<P>, resourceVersion: string, ending: AbortController): Promise<void> {
  const { options, timings, format } = loop;
  const read = { timeoutMs: timings.pageMs, signal: ending.signal, ...accepting(format.listAccept) };
  const request = { path: options.path, query: { ...selectors(options), ...format.query }, options: read };
  if (!(await isFutureVersion(options.client, resourceVersion, request).catch(() => false))) return;
  const text =
    `watch of ${options.path}: version ${resourceVersion} is newer than the API server's: it was restored from a ` +
    "backup";
  ending.abort(new SwitchbackError("kube-expired", text));
}

/** Returns the duration of a watch. It ends in time for the next full list. */
function watchSeconds<P>({ relistAt, now }: Loop<P>, drawn: number): number {
  return Math.max(1, Math.min(drawn, Math.ceil((relistAt - now()) / 1000)));
}

/** Processes one line. Returns whether it was a change of an object (not a bookmark). */
function processLine<P>(loop: Loop<P>, line: string): boolean {
  const { cache, options, format } = loop;
  const event = parseEvent(line, format);
  if (event.type === "ERROR") throw watchStatusError(`watch of ${options.path}`, event.object);
  const version = event.object.metadata?.resourceVersion;
  if (!version) throw new SwitchbackError("data-corrupt", `watch event ${event.type} without a resourceVersion`);
  if (event.type !== "BOOKMARK") {
    loop.touched?.add(cacheKey(event.object));
    const change = event.type === "DELETED" ? cache.remove(event.object) : cache.put(event.object);
    if (change) emit(loop, change);
  }
  loop.resourceVersion = version;
  loop.keeper.version(version);
  return event.type !== "BOOKMARK";
}

const EVENT_TYPES = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"];

function parseEvent(line: string, { objectOf }: ObjectFormat): WatchEvent {
  try {
    const event = JSON.parse(line) as Partial<WatchEvent> | null;
    const object = event?.object && objectOf(event.object);
    if (event?.type && EVENT_TYPES.includes(event.type) && object) return { type: event.type, object };
  } catch {
    // reported below
  }
  throw new SwitchbackError("data-corrupt", `a watch line of ${line.length} characters is not a watch event`);
}

function emit<P>(loop: Loop<P>, change: ObjectChange<P>): void {
  guarded(loop, `onChange of ${change.key}`, () => loop.options.onChange(change));
}

/** Runs a handler. If it throws or rejects, the error is logged and the watch continues. */
function guarded<P>(loop: Loop<P>, what: string, handler: () => unknown): void {
  const failed = (error: unknown) => loop.keeper.handlerFailed(what, error);
  try {
    const result = handler();
    if (result instanceof Promise) result.catch(failed);
  } catch (error) {
    failed(error);
  }
}

function accepting(accept: string | undefined) {
  return accept === undefined ? {} : { accept };
}

function selectors({ labelSelector, fieldSelector }: Pick<WatchOptions<unknown>, "labelSelector" | "fieldSelector">) {
  return { labelSelector, fieldSelector };
}
