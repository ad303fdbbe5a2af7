import type { Reason } from "#hostmap/types.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { createBackoff } from "./backoff.ts";
import { cacheKey, createCache, type ObjectCache, type ObjectChange, type Relist } from "./cache.ts";
import type { KubeClient } from "./client.ts";
import { listPages, PAGE_SIZE } from "./list.ts";
import { isUnavailable, problemCode, retryAfterOf, watchStatusError } from "./status.ts";
import { type ObjectFormat, objectFormat, tableFormat } from "./table.ts";
import { between, pause, steadyNow, timeSlices, yieldToLoop } from "./time.ts";
import type { ApiObject, WatchEvent } from "./types.ts";

/** Milliseconds, unless noted. A range means a new random value each time, to spread replicas. */
export interface WatchTimings {
  /** Idle timeout after which a watch is reopened. A dead connection has no other symptom. */
  idleMs: number;
  /** The requested duration of a watch (timeoutSeconds), seconds. */
  watchSeconds: readonly [number, number];
  /**
   * How often everything is listed again, to pick up missed changes. It also finds an etcd that was restored from a
   * backup behind a proxy that hid the outage: a watch from a version of the future gets no events.
   */
  relistMs: readonly [number, number];
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

/** The state of a watch, for health and status pages. */
interface WatchState {
  /**
   * A complete list was processed, so `objects()` is complete. It stays true during outages, because the last state
   * is kept.
   */
  readonly synced: boolean;
  /** A watch has been open for `shortMs`, and nothing has failed since. Changes arrive at once. */
  readonly following: boolean;
  /**
   * Milliseconds since the last response or attempt, for a liveness probe. Above three minutes the watch hangs and
   * needs a restart. While the API server is down, attempts keep this value low, because a restart would not help.
   */
  readonly inactiveMs: number;
  /** The current problem: `not-found` (the CRD is not installed), `forbidden`, `unreachable`, ... */
  readonly problem?: Reason;
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

/**
 * Lists and then watches until stopped. Every failure is handled in one place: after a pause, everything is listed
 * again. Known objects are kept until an event or a complete list changes them.
 */
export function watchObjects<P, T = ApiObject>(options: WatchOptions<P, T>): Informer<P> {
  return new Watch(options as WatchOptions<P, unknown> as WatchOptions<P>);
}

const HANDLER_LOG_EVERY_MS = 10_000;

class Watch<P> implements Informer<P> {
  readonly #options: WatchOptions<P>;
  readonly #timings: WatchTimings;
  readonly #now: () => number;
  readonly #random: () => number;
  readonly #format: ObjectFormat;
  readonly #cache: ObjectCache<P>;
  readonly #stop = new AbortController();
  readonly #handlerLog: LogThrottle;
  readonly #running: Promise<void>;
  /** The version from which the next watch starts. */
  #version = "";
  #relistAt = 0;
  #synced = false;
  #following = false;
  #activeAt: number;
  #problem: Reason | undefined;
  #failingSince = 0;
  /** The namespaces to list again. */
  readonly #again = new Set<string>();
  /** Lists them. Undefined while no watch is open. */
  #listAgain: (() => void) | undefined;
  /** While a namespace is listed: the keys of the objects with events since the request. */
  #touched: Set<string> | undefined;

  constructor(options: WatchOptions<P>) {
    this.#options = options;
    this.#now = options.now ?? steadyNow;
    this.#random = options.random ?? Math.random;
    this.#timings = { ...WATCH_TIMINGS, ...options.timings };
    this.#format =
      options.columns === undefined ? objectFormat(options.metadataOnly === true) : tableFormat(options.columns);
    this.#cache = createCache(
      options.project,
      (key, error) => this.#handlerFailed(`projection of ${key}`, error),
      options.isPartial,
    );
    this.#handlerLog = new LogThrottle(HANDLER_LOG_EVERY_MS, this.#now);
    this.#activeAt = this.#now();
    this.#running = this.#run();
  }

  get state(): WatchState {
    return {
      synced: this.#synced,
      following: this.#following,
      inactiveMs: this.#now() - this.#activeAt,
      ...(this.#problem && { problem: this.#problem }),
    };
  }

  objects(): ReadonlyMap<string, P> {
    return this.#cache.values;
  }

  revise(key: string, change: (value: P) => P | undefined): void {
    this.#emit(this.#cache.revise(key, change));
  }

  refresh(namespace: string): void {
    this.#again.add(namespace);
    this.#listAgain?.();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { backoffMs, backoffCapMs, unavailableCapMs } = this.#timings;
    const backoff = createBackoff(backoffMs, backoffCapMs, this.#random);
    const slowBackoff = createBackoff(backoffMs * 4, unavailableCapMs, this.#random);
    const { signal } = this.#stop;
    // No handler runs before `watchObjects` has returned. So the caller can finish its setup.
    await yieldToLoop();
    while (!signal.aborted) {
      try {
        await this.#list();
        slowBackoff.reset();
        while (!signal.aborted && this.#now() < this.#relistAt) await this.#follow(() => backoff.reset());
      } catch (error) {
        if (signal.aborted) return;
        this.#failed(error);
        await pause((isUnavailable(error) ? slowBackoff : backoff).next(retryAfterOf(error)), signal);
      }
    }
  }

  async #list(): Promise<void> {
    const relist = this.#cache.beginRelist();
    const { signal } = this.#stop;
    const version = await this.#readPages(this.#options.path, this.#options.fromCache === true, signal, relist);
    let changes = 0;
    for (const change of relist.finish()) {
      if (signal.aborted) return;
      this.#emit(change);
      if (++changes % PAGE_SIZE === 0) await yieldToLoop();
    }
    if (signal.aborted) return;
    this.#version = version;
    this.#relistAt = this.#now() + between(...this.#timings.relistMs, this.#random);
    if (this.#synced) return;
    this.#synced = true;
    this.#guarded("onSynced", () => this.#options.onSynced?.());
  }

  /** Reads a list, and emits the change of each object. Returns the resourceVersion of the list. */
  #readPages(
    path: string,
    fromCache: boolean,
    signal: AbortSignal,
    { add, restart }: Pick<Relist<P>, "add" | "restart">,
  ): Promise<string> {
    return listPages<ApiObject>({
      fromCache,
      client: this.#options.client,
      path,
      query: { limit: this.#options.pageSize ?? PAGE_SIZE, ...this.#selection() },
      options: { timeoutMs: this.#timings.pageMs, signal, ...accepting(this.#format.listAccept) },
      itemsOf: this.#format.itemsOf,
      onPage: async (items) => {
        this.#activeAt = this.#now();
        const sliceEnd = timeSlices(this.#now);
        for (const item of items) {
          if (signal.aborted) return;
          this.#emit(add(item));
          const ended = sliceEnd();
          if (ended !== undefined) await ended;
        }
      },
      restart,
    });
  }

  /**
   * Lists the namespaces of `refresh` while a watch is open. An object with an event since the request is left as it
   * is: its event may be newer than the list. Later events of the others are still to come.
   */
  async #listNamespaces(signal: AbortSignal): Promise<void> {
    for (const namespace of this.#again) {
      const path = this.#options.pathIn?.(namespace);
      if (signal.aborted || path === undefined) return;
      const touched = new Set<string>();
      this.#touched = touched;
      this.#again.delete(namespace);
      try {
        const add = (item: ApiObject) => (touched.has(cacheKey(item)) ? undefined : this.#cache.put(item));
        await this.#readPages(path, false, signal, { add, restart() {} });
      } catch {
        this.#again.add(namespace);
        return;
      } finally {
        this.#touched = undefined;
      }
    }
  }

  /** Runs one watch to its end. Returns if the next watch may follow at once, and throws on failure. */
  async #follow(onHealthy: () => void): Promise<void> {
    const { path, client } = this.#options;
    const { idleMs, shortMs, healthyMs } = this.#timings;
    const seconds = this.#watchSeconds();
    const ending = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, ending.signal]);
    let openedAt: number | undefined;
    let opened: NodeJS.Timeout | undefined;
    let events = 0;
    let listing = Promise.resolve();
    try {
      const query = { watch: true, allowWatchBookmarks: true, resourceVersion: this.#version, timeoutSeconds: seconds };
      const end = await client.stream(
        path,
        { ...query, ...this.#selection() },
        {
          signal,
          ...accepting(this.#format.watchAccept),
          idleMs,
          maxMs: (seconds + 30) * 1000,
          onOpen: () => {
            openedAt = this.#now();
            this.#activeAt = openedAt;
            opened = setTimeout(() => this.#recovered(), shortMs);
            this.#listAgain = () => {
              listing = listing.then(() => this.#listNamespaces(signal));
            };
            this.#listAgain();
          },
          onLine: (line) => {
            if (signal.aborted) return;
            this.#activeAt = this.#now();
            if (this.#processLine(line)) events++;
          },
        },
      );
      if (end === "closed" && events === 0 && this.#now() - (openedAt ?? this.#now()) < shortMs) {
        throw new SwitchbackError("kube-unreachable", `watch of ${path}: closed as soon as it was opened`);
      }
    } finally {
      clearTimeout(opened);
      this.#listAgain = undefined;
      ending.abort();
      if (openedAt !== undefined && this.#now() - openedAt >= healthyMs) onHealthy();
    }
  }

  /** Returns the duration of a watch. It ends in time for the next full list. */
  #watchSeconds(): number {
    const leftSeconds = Math.ceil((this.#relistAt - this.#now()) / 1000);
    return Math.max(1, Math.min(between(...this.#timings.watchSeconds, this.#random), leftSeconds));
  }

  /** Processes one line. Returns whether it was a change of an object (not a bookmark). */
  #processLine(line: string): boolean {
    const { type, object } = parseEvent(line, this.#format);
    if (type === "ERROR") throw watchStatusError(`watch of ${this.#options.path}`, object);
    const version = object.metadata?.resourceVersion;
    if (!version) throw new SwitchbackError("data-corrupt", `watch event ${type} without a resourceVersion`);
    if (type !== "BOOKMARK") {
      this.#touched?.add(cacheKey(object));
      this.#emit(type === "DELETED" ? this.#cache.remove(object) : this.#cache.put(object));
    }
    this.#version = version;
    return type !== "BOOKMARK";
  }

  #emit(change: ObjectChange<P> | undefined): void {
    if (change !== undefined) this.#guarded(`onChange of ${change.key}`, () => this.#options.onChange(change));
  }

  /** Runs a handler. If it throws or rejects, the error is logged and the watch continues. */
  #guarded(what: string, handler: () => unknown): void {
    const failed = (error: unknown) => this.#handlerFailed(what, error);
    try {
      const result = handler();
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  /** Logs at most one line in ten seconds. */
  #handlerFailed(what: string, error: unknown): void {
    if (this.#handlerLog.pass("handler") === undefined) return;
    const { log, path } = this.#options;
    log.error({ path, error: `${what}: ${describeError(error)}` }, "a watch handler failed");
  }

  #recovered(): void {
    this.#following = true;
    if (this.#problem === undefined) return;
    const seconds = Math.round((this.#now() - this.#failingSince) / 1000);
    this.#options.log.info({ path: this.#options.path, seconds }, "watch recovered");
    this.#problem = undefined;
  }

  /** Records the failure. A line is logged when the problem begins or changes. */
  #failed(error: unknown): void {
    const next = { code: problemCode(error), text: describeError(error) };
    this.#following = false;
    this.#activeAt = this.#now();
    if (this.#problem === undefined) this.#failingSince = this.#activeAt;
    if (this.#problem?.code !== next.code) {
      // An expired version is normal. The next list recovers from it.
      const level = next.code === "expired" ? "info" : "warn";
      const { log, path } = this.#options;
      log[level]({ path, code: next.code, error: next.text }, "watch interrupted, will be retried");
    }
    this.#problem = next;
  }

  #selection() {
    const { labelSelector, fieldSelector } = this.#options;
    return { labelSelector, fieldSelector, ...this.#format.query };
  }
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

function accepting(accept: string | undefined) {
  return accept === undefined ? {} : { accept };
}
