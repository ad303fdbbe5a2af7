import type { Reason } from "#hostmap/types.ts";
import { describeError, hasCode, statusOf } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";

/** The state of a watch. Its counters never decrease, so they can be metrics. */
export interface WatchState {
  /**
   * A complete list was processed, so `objects()` is complete. It stays true during outages, because the last state
   * is kept. `following` and `silentMs` indicate the age of that state.
   */
  readonly synced: boolean;
  /** A watch is open and healthy, or was so until a moment ago. Changes arrive at once. */
  readonly following: boolean;
  /**
   * When the API server last responded on this watch, in milliseconds of the injected clock (default: since the
   * epoch). 0 means never.
   */
  readonly lastContact: number;
  /**
   * Milliseconds since the API server last responded, or since the start. If not `following`, this is the maximum age
   * of the objects.
   */
  readonly silentMs: number;
  /**
   * Milliseconds since the last response or attempt, for a liveness probe. Above three minutes the watch hangs and
   * needs a restart. While the API server is down, attempts keep this value low, because a restart would not help.
   */
  readonly inactiveMs: number;
  readonly resourceVersion?: string;
  readonly lists: number;
  readonly watches: number;
  readonly errors: number;
  /** The message of the last failure. */
  readonly lastError?: string;
  /** The current problem: `not-found` (the CRD is not installed), `forbidden`, `unreachable`, ... */
  readonly problem?: Reason;
}

/** Maintains the state, and logs one line when a problem starts, changes or ends. */
export interface StateKeeper {
  readonly state: WatchState;
  contact(): void;
  listed(resourceVersion: string): void;
  version(resourceVersion: string): void;
  opened(): void;
  healthy(): void;
  failed(error: unknown): void;
  /** Counts a handler failure; logs at most one line in ten seconds. */
  handlerFailed(what: string, error: unknown): void;
}

const HANDLER_LOG_EVERY_MS = 10_000;

/** The stored fields of `WatchState`. The other fields are computed on access. */
type Stored = { -readonly [K in keyof Omit<WatchState, "silentMs" | "inactiveMs" | "problem">]: WatchState[K] };

export function createStateKeeper(path: string, log: Logger, now: () => number): StateKeeper {
  const startedAt = now();
  const stored: Stored = { synced: false, following: false, lastContact: 0, lists: 0, watches: 0, errors: 0 };
  let problem: Reason | undefined;
  let lastActivity = startedAt;
  let failingSince = startedAt;
  const handlers = new LogThrottle(HANDLER_LOG_EVERY_MS, now);

  function contact(): void {
    stored.lastContact = now();
    lastActivity = stored.lastContact;
  }

  return {
    get state() {
      const silentMs = now() - (stored.lastContact || startedAt);
      return { ...stored, silentMs, inactiveMs: now() - lastActivity, ...(problem ? { problem } : {}) };
    },
    contact,
    listed(version) {
      stored.lists++;
      stored.resourceVersion = version;
      stored.synced = true;
    },
    version(version) {
      stored.resourceVersion = version;
    },
    opened() {
      stored.watches++;
      contact();
    },
    healthy() {
      stored.following = true;
      if (problem) log.info({ path, seconds: Math.round((now() - failingSince) / 1000) }, "watch recovered");
      problem = undefined;
    },
    failed(error) {
      const next = problemOf(error);
      stored.errors++;
      stored.following = false;
      stored.lastError = next.text;
      lastActivity = now();
      // An error status is also a response.
      if (statusOf(error) !== undefined) contact();
      if (problem === undefined) failingSince = now();
      if (problem?.code !== next.code) {
        // An expired version is normal. The next list recovers from it.
        const level = next.code === "expired" ? "info" : "warn";
        log[level]({ path, code: next.code, error: next.text }, "watch interrupted, will be retried");
      }
      problem = next;
    },
    handlerFailed(what, error) {
      stored.errors++;
      stored.lastError = `${what}: ${describeError(error)}`;
      if (handlers.pass("handler") === undefined) return;
      log.error({ path, error: stored.lastError, errors: stored.errors }, "a watch handler failed");
    },
  };
}

/** Whether the resource is currently unavailable (403, 404), so that frequent retries are pointless. */
export function isUnavailable(error: unknown): boolean {
  const status = statusOf(error);
  return status === 404 || status === 403;
}

function problemOf(error: unknown): Reason {
  return { code: problemCode(error), text: describeError(error) };
}

const STATUS_CODES: Readonly<Record<number, string>> = {
  401: "unauthorized",
  403: "forbidden",
  404: "not-found",
  429: "throttled",
};

function problemCode(error: unknown): string {
  // The API server answers 410. After its restore from a backup, our own check reports this, without a status.
  if (hasCode(error, "kube-expired")) return "expired";
  const status = statusOf(error);
  if (status !== undefined) return STATUS_CODES[status] ?? (status >= 500 ? "server-error" : "refused");
  if (hasCode(error, "kube-unreachable")) return "unreachable";
  if (hasCode(error, "data-corrupt")) return "corrupt";
  return "internal";
}
