import type { Backoff } from "./backoff.ts";
import { retryAfterOf } from "./status.ts";
import { type StartTimer, startTimer } from "./time.ts";

/** What a successful run requests. */
export interface ReconcileResult {
  /**
   * Run again after this many milliseconds, unless something requests a run sooner. Undefined: run only when
   * enqueued.
   */
  readonly requeueAfter?: number | undefined;
}

/** What happens after a failed run. */
interface RetryOptions {
  /** The wait until the next run, at least the API server's Retry-After. A successful run resets it. */
  readonly backoff: Backoff;
  /** Reports a failure and the milliseconds until the retry. Also called for the last run, after `stop`. */
  readonly onError: (error: unknown, retryMs: number) => void;
  /** If true, an enqueue does not shorten the backoff. */
  readonly hold?: boolean;
}

export interface ReconcilerOptions {
  /** One run. If it does not return a promise, it ends when it returns. */
  readonly reconcile: () => ReconcileResult | undefined | Promise<ReconcileResult | undefined>;
  /** Without it, a run must never fail: an error is rethrown, uncaught. */
  readonly retry?: RetryOptions;
  /**
   * Minimum time between the end of a run and the next run, in milliseconds. Called at the end of the run. Default:
   * 0.
   */
  readonly pauseMs?: () => number;
  /** Set only in tests. */
  readonly startTimer?: StartTimer;
}

interface Wait {
  /** The duration of the wait. The remaining time is never longer. */
  readonly ms: number;
  readonly cancel: () => void;
}

/**
 * Runs one function when it is enqueued, one run at a time. After an enqueue, there is always a run that begins later
 * than the enqueue. Of several enqueues, the earliest due one counts, and its run satisfies the others too. No clock
 * is read, so a clock change affects no wait.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #startTimer: StartTimer;
  /** Contains several waits only if a later enqueue may be due earlier. The first one that ends cancels the others. */
  readonly #waits = new Set<Wait>();
  /** A wait has ended. A run begins as soon as it is allowed. */
  #due = false;
  #running = false;
  /** Cancels the pause or the backoff during which no run may begin. */
  #cancelHold: (() => void) | undefined;
  #stopped = false;
  /** Resolves `idle` when nothing is left to run. */
  #idle: PromiseWithResolvers<void> | undefined;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#startTimer = options.startTimer ?? startTimer;
  }

  /**
   * Requests a run that begins later than now, at the latest in `afterMs`. A current run, a pause or a held backoff
   * may delay it.
   */
  enqueue(afterMs = 0): void {
    if (this.#stopped || this.#due) return;
    const ms = Math.max(0, afterMs);
    for (const wait of this.#waits) if (wait.ms <= ms) return;
    this.#waits.add({ ms, cancel: this.#startTimer(() => this.#expire(), ms) });
  }

  /**
   * Resolves when no run is in progress and none is pending from an enqueue, a requeue or a retry. A run must not
   * wait for this.
   */
  async idle(): Promise<void> {
    if (this.#isIdle) return;
    this.#idle ??= Promise.withResolvers();
    await this.#idle.promise;
  }

  /** Prevents further runs. Resolves when the current run has ended. A run must not wait for this. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#due = false;
    this.#cancelWaits();
    this.#cancelHold?.();
    this.#settleIfIdle();
    await this.idle();
  }

  get #isIdle(): boolean {
    return !this.#running && !this.#due && this.#waits.size === 0;
  }

  #settleIfIdle(): void {
    if (!this.#isIdle) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  #expire(): void {
    this.#cancelWaits();
    this.#due = true;
    this.#runIfDue();
  }

  #cancelWaits(): void {
    for (const { cancel } of this.#waits) cancel();
    this.#waits.clear();
  }

  #runIfDue(): void {
    if (!this.#due || this.#running || this.#cancelHold !== undefined || this.#stopped) return;
    this.#due = false;
    this.#running = true;
    let result: ReturnType<ReconcilerOptions["reconcile"]>;
    try {
      result = this.#options.reconcile();
    } catch (error) {
      this.#failed(error);
      return;
    }
    if (result instanceof Promise) {
      void result.then(
        (settled) => this.#succeeded(settled),
        (error) => this.#failed(error),
      );
    } else this.#succeeded(result);
  }

  #succeeded(result: ReconcileResult | undefined): void {
    this.#options.retry?.backoff.reset();
    this.#finish(result?.requeueAfter, 0);
  }

  #failed(error: unknown): void {
    const { retry } = this.#options;
    if (retry === undefined) {
      this.#finish(undefined, 0);
      throw error;
    }
    const retryMs = retry.backoff.next(retryAfterOf(error));
    try {
      retry.onError(error, retryMs);
    } finally {
      this.#finish(retryMs, retry.hold === true ? retryMs : 0);
    }
  }

  #finish(nextMs: number | undefined, holdMs: number): void {
    this.#running = false;
    const blockedMs = this.#stopped ? 0 : Math.max(holdMs, this.#options.pauseMs?.() ?? 0);
    if (blockedMs > 0) this.#cancelHold = this.#startTimer(() => this.#endHold(), blockedMs);
    if (nextMs !== undefined) this.enqueue(nextMs);
    this.#runIfDue();
    this.#settleIfIdle();
  }

  #endHold(): void {
    this.#cancelHold = undefined;
    this.#runIfDue();
  }
}
