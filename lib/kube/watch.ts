import type { Reason } from "#hostmap/types.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { METADATA_LIST, METADATA_WATCH } from "./accept.ts";
import { createBackoff } from "./backoff.ts";
import { cacheKey, ObjectCache, type ObjectChange } from "./cache.ts";
import type { KubeClient } from "./client.ts";
import { listPages, PAGE_SIZE } from "./list.ts";
import type { Query } from "./paths.ts";
import { KubeStatusError, problemCode, retryAfterOf } from "./status.ts";
import { between, pause, steadyNow, timeSlices, yieldToLoop } from "./time.ts";
import type { ApiObject, WatchEvent } from "./types.ts";

/** Milliseconds. */
export interface WatchTimings {
  /** Idle timeout after which a watch is reopened. A dead connection has no other symptom. */
  idleMs: number;
  backoffMs: number;
  backoffCapMs: number;
  /** A watch that ends sooner than this without an event counts as failed. */
  shortMs: number;
}

const WATCH_TIMINGS: WatchTimings = {
  idleMs: 90_000,
  backoffMs: 250,
  backoffCapMs: 5_000,
  shortMs: 1_000,
};
/** The requested duration of a watch (timeoutSeconds): a new random value each time, to spread replicas. */
const WATCH_SECONDS = [300, 600] as const;
/**
 * How often everything is listed again, to pick up missed changes. It also finds an etcd that was restored from a
 * backup behind a proxy that hid the outage: a watch from a version of the future gets no events.
 */
const RELIST_MS = [30 * 60_000, 60 * 60_000] as const;
/** A watch that stays open this long resets the backoff. */
const HEALTHY_MS = 60_000;
/** Timeout of one page of a list. */
const PAGE_MS = 30_000;

/** P is the projection that is kept of an object. T is the assumed type of the objects. */
export interface WatchOptions<P, T = ApiObject> {
  client: Pick<KubeClient, "get" | "stream">;
  /** Path of the collection, of one namespace or all. To watch one object, use `fieldSelector: "metadata.name=x"`. */
  path: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Requests only metadata. `project` gets nothing else. */
  metadataOnly?: boolean;
  pageSize?: number;
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
  /**
   * Sends a request for one object, and takes the object of the answer for its state. So it counts before the watch
   * shows it. Undefined: the object is missing. If the watch has shown anything of the object since the request, the
   * answer does not count, because it may be older. Returns the projection of the answer, and passes errors on.
   */
  request(key: string, send: () => Promise<ApiObject | undefined>): Promise<P | undefined>;
  /** Lists everything again, because `project` may now keep more. The caller limits how often. */
  relist(): void;
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
  readonly #selection: Query;
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
  /** Ends the open watch. */
  #endWatch: (() => void) | undefined;
  /** The keys of requests in progress, of which neither the watch nor a list has shown anything since. */
  readonly #requested = new Set<string>();

  constructor(options: WatchOptions<P>) {
    this.#options = options;
    this.#now = options.now ?? steadyNow;
    this.#random = options.random ?? Math.random;
    this.#timings = { ...WATCH_TIMINGS, ...options.timings };
    this.#selection = { labelSelector: options.labelSelector, fieldSelector: options.fieldSelector };
    this.#cache = new ObjectCache(
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

  async request(key: string, send: () => Promise<ApiObject | undefined>): Promise<P | undefined> {
    this.#requested.add(key);
    const object = await send();
    if (this.#requested.delete(key) && !this.#stop.signal.aborted) {
      this.#emit(object === undefined ? this.#cache.remove(key) : this.#cache.put(object));
    }
    return object && this.#options.project(object);
  }

  relist(): void {
    this.#relistAt = this.#now();
    this.#endWatch?.();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { backoffMs, backoffCapMs } = this.#timings;
    const backoff = createBackoff(backoffMs, backoffCapMs, this.#random);
    const { signal } = this.#stop;
    // No handler runs before `watchObjects` has returned. So the caller can finish its setup.
    await yieldToLoop();
    while (!signal.aborted) {
      try {
        await this.#list();
        while (!signal.aborted && this.#now() < this.#relistAt) await this.#follow(() => backoff.reset());
      } catch (error) {
        if (signal.aborted) return;
        this.#failed(error);
        await pause(backoff.next(retryAfterOf(error)), signal);
      }
    }
  }

  /**
   * Lists everything. Additions and updates apply at once, so that no list is in memory as a whole. Deletions follow
   * when the list is complete, so that a moved name never disappears, and a list that fails halfway deletes nothing.
   */
  async #list(): Promise<void> {
    const { client, path, pageSize: limit = PAGE_SIZE } = this.#options;
    const { signal } = this.#stop;
    // First, because a request for the next list may come before this one ends.
    this.#relistAt = this.#now() + between(...RELIST_MS, this.#random);
    const listed = new Set<string>();
    const query = { limit, ...this.#selection };
    // The watch then takes the connection of its list. Another one would cost 80 KB and a handshake.
    const options = { channel: "watch", timeoutMs: PAGE_MS, signal, ...this.#accepting(METADATA_LIST) } as const;
    let version = "";
    const sliceEnd = timeSlices(this.#now);
    for await (const { items, resourceVersion } of listPages<ApiObject>(client, path, query, options)) {
      version = resourceVersion;
      this.#activeAt = this.#now();
      for (const item of items) {
        if (signal.aborted) return;
        listed.add(cacheKey(item));
        this.#show(this.#cache.put(item));
        await sliceEnd();
      }
    }
    for (const key of this.#cache.values.keys()) {
      if (signal.aborted) return;
      if (!listed.has(key)) this.#show(this.#cache.remove(key));
      await sliceEnd();
    }
    if (signal.aborted) return;
    this.#version = version;
    if (this.#synced) return;
    this.#synced = true;
    this.#guarded("onSynced", () => this.#options.onSynced?.());
  }

  /** Runs one watch to its end. Returns if the next watch may follow at once, and throws on failure. */
  async #follow(onHealthy: () => void): Promise<void> {
    const { path, client } = this.#options;
    const { idleMs, shortMs } = this.#timings;
    // The watch ends in time for the next full list.
    const leftSeconds = Math.ceil((this.#relistAt - this.#now()) / 1000);
    const seconds = Math.max(1, Math.min(between(...WATCH_SECONDS, this.#random), leftSeconds));
    const ending = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, ending.signal]);
    this.#endWatch = () => ending.abort();
    let openedAt: number | undefined;
    let opened: NodeJS.Timeout | undefined;
    let events = 0;
    try {
      const query = { watch: true, allowWatchBookmarks: true, resourceVersion: this.#version, timeoutSeconds: seconds };
      const end = await client.stream(
        path,
        { ...query, ...this.#selection },
        {
          signal,
          ...this.#accepting(METADATA_WATCH),
          idleMs,
          onOpen: () => {
            openedAt = this.#now();
            this.#activeAt = openedAt;
            opened = setTimeout(() => this.#recovered(), shortMs);
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
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    } finally {
      clearTimeout(opened);
      this.#endWatch = undefined;
      if (openedAt !== undefined && this.#now() - openedAt >= HEALTHY_MS) onHealthy();
    }
  }

  /** Processes one line. Returns whether it was a change of an object (not a bookmark). */
  #processLine(line: string): boolean {
    const { type, object } = parseEvent(line);
    if (type === "ERROR") throw new KubeStatusError(`watch of ${this.#options.path}`, object.code ?? 500, object);
    const version = object.metadata?.resourceVersion;
    if (!version) throw new SwitchbackError("data-corrupt", `watch event ${type} without a resourceVersion`);
    if (type !== "BOOKMARK") {
      const key = cacheKey(object);
      this.#show(type === "DELETED" ? this.#cache.remove(key) : this.#cache.put(object), key);
    }
    this.#version = version;
    return type !== "BOOKMARK";
  }

  /** What the watch or a list shows of an object. */
  #show(change: ObjectChange<P> | undefined, key = change?.key): void {
    if (key !== undefined) this.#requested.delete(key);
    this.#emit(change);
  }

  #emit(change: ObjectChange<P> | undefined): void {
    if (change !== undefined) this.#guarded(`onChange of ${change.key}`, () => this.#options.onChange(change));
  }

  /** Runs a handler. If it throws, the error is logged and the watch continues. */
  #guarded(what: string, handler: () => void): void {
    try {
      handler();
    } catch (error) {
      this.#handlerFailed(what, error);
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
    this.#options.log.info({ path: this.#options.path }, "watch recovered");
    this.#problem = undefined;
  }

  /** Records the failure. A line is logged when the problem begins or changes. */
  #failed(error: unknown): void {
    const next = { code: problemCode(error), text: describeError(error) };
    this.#following = false;
    this.#activeAt = this.#now();
    if (this.#problem?.code !== next.code) {
      // An expired version is normal. The next list recovers from it.
      const level = next.code === "expired" ? "info" : "warn";
      const { log, path } = this.#options;
      log[level]({ path, code: next.code, error: next.text }, "watch interrupted, will be retried");
    }
    this.#problem = next;
  }

  #accepting(metadata: string) {
    return this.#options.metadataOnly ? { accept: metadata } : {};
  }
}

function parseEvent(line: string): WatchEvent {
  try {
    const event = JSON.parse(line) as Partial<WatchEvent> | null;
    if (event?.object && /^(ADDED|MODIFIED|DELETED|BOOKMARK|ERROR)$/.test(event.type ?? "")) return event as WatchEvent;
  } catch {
    // reported below
  }
  throw new SwitchbackError("data-corrupt", `a watch line of ${line.length} characters is not a watch event`);
}
