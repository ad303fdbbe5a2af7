import { describeError, hasCode, statusOf } from "../errors/errors.ts";
import type { Reason } from "../hostmap/types.ts";
import type { Logger } from "../telemetry/log.ts";

/** What a watch knows of itself. All numbers only grow, so that they can be metrics. */
export interface WatchState {
  /**
   * A complete list has been taken in: `objects()` is a whole picture. It stays true through outages, since the last picture is
   * kept; how old that may be is told by `following` and `silentMs`.
   */
  readonly synced: boolean;
  /** A watch is open and healthy, or was until a moment ago: changes arrive at once. */
  readonly following: boolean;
  /** When the API server was last heard on this watch, in milliseconds of the injected clock (default: since the epoch). 0: never. */
  readonly lastContact: number;
  /** Milliseconds since the API server was last heard, or since the start. How old the picture may be, if nothing is `following`. */
  readonly silentMs: number;
  /**
   * Milliseconds since this watch last heard or tried anything. Over three minutes: it hangs, and a restart is right (for a liveness probe).
   * An API server that is down is no reason to restart, and does not let this grow.
   */
  readonly inactiveMs: number;
  readonly resourceVersion?: string;
  readonly lists: number;
  readonly watches: number;
  readonly errors: number;
  /** The last failure ever, for people. */
  readonly lastError?: string;
  /** What is wrong now: `not-found` (no such resource: its CRD is not installed), `forbidden`, `unreachable`, ... */
  readonly problem?: Reason;
}

/** Keeps the state, and logs one line when trouble begins, changes or ends. */
export interface StateKeeper {
  readonly state: WatchState;
  contact(): void;
  listed(resourceVersion: string): void;
  version(resourceVersion: string): void;
  opened(): void;
  healthy(): void;
  failed(error: unknown): void;
  /** Trouble in a handler: counted, and at most one log line in ten seconds. */
  handlerFailed(what: string, error: unknown): void;
}

const HANDLER_LOG_EVERY_MS = 10_000;

/** What `WatchState` is made of; the rest is told from it when it is asked for. */
type Stored = { -readonly [K in keyof Omit<WatchState, "silentMs" | "inactiveMs" | "problem">]: WatchState[K] };

export function createStateKeeper(path: string, log: Logger, now: () => number): StateKeeper {
  const startedAt = now();
  const stored: Stored = { synced: false, following: false, lastContact: 0, lists: 0, watches: 0, errors: 0 };
  let problem: Reason | undefined;
  let lastActivity = startedAt;
  let failingSince = startedAt;
  let handlerLoggedAt = Number.NEGATIVE_INFINITY;

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
      // A refusal is an answer.
      if (statusOf(error) !== undefined) contact();
      if (problem === undefined) failingSince = now();
      if (problem?.code !== next.code) {
        // A lost window is everyday business: the list that follows heals it.
        const level = next.code === "expired" ? "info" : "warn";
        log[level]({ path, code: next.code, error: next.text }, "watch interrupted, will be retried");
      }
      problem = next;
    },
    handlerFailed(what, error) {
      stored.errors++;
      stored.lastError = `${what}: ${describeError(error)}`;
      if (now() - handlerLoggedAt < HANDLER_LOG_EVERY_MS) return;
      handlerLoggedAt = now();
      log.error({ path, error: stored.lastError, errors: stored.errors }, "a watch handler failed");
    },
  };
}

/** Whether the resource cannot be had at all for now, so that asking often is pointless. */
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
  410: "expired",
  429: "throttled",
};

function problemCode(error: unknown): string {
  const status = statusOf(error);
  if (status !== undefined) return STATUS_CODES[status] ?? (status >= 500 ? "server-error" : "refused");
  if (hasCode(error, "kube-unreachable")) return "unreachable";
  if (hasCode(error, "data-corrupt")) return "corrupt";
  return "internal";
}
