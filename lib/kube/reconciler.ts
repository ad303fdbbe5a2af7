import type { Backoff } from "./backoff.ts";
import { retryAfterOf } from "./status.ts";
import { type StartTimer, startTimer } from "./time.ts";

/** What a run that succeeded asks for. */
export interface ReconcileResult {
  /**
   * Run again after this many milliseconds, unless something else asks for a run sooner; undefined: only when enqueued.
   */
  readonly requeueAfter?: number | undefined;
}

/** What happens after a run that failed. */
interface RetryOptions {
  /** The wait until the next run, not shorter than the API server's Retry-After; reset by a run that succeeds. */
  readonly backoff: Backoff;
  /** Reports a failure and the milliseconds until the retry. Also called for the last run, after `stop`. */
  readonly onError: (error: unknown, retryMs: number) => void;
  /** Whether no enqueue cuts the backoff short. */
  readonly hold?: boolean;
}

export interface ReconcilerOptions {
  /** One run. If it returns no promise, it is over when it returns. */
  readonly reconcile: () => ReconcileResult | undefined | Promise<ReconcileResult | undefined>;
  /** Without it a run never fails by design: an error is rethrown, uncaught. */
  readonly retry?: RetryOptions;
  /** The least time between the end of a run and the next run, milliseconds, asked at that end; by default 0. */
  readonly pauseMs?: () => number;
  /** Another one only in tests. */
  readonly startTimer?: StartTimer;
}

interface Wait {
  /** The wait when it began; what is left of it is never longer. */
  readonly ms: number;
  readonly cancel: () => void;
}

/**
 * Runs one function whenever it is enqueued: one run at a time, never two, and after an enqueue there is always a
 * run that begins later than it. Of several enqueues the earliest due counts; that run satisfies the others too. No
 * clock is read, so one that jumps changes no wait.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #startTimer: StartTimer;
  /** More than one only if a later enqueue may be due earlier. The first to end ends all. */
  readonly #waits = new Set<Wait>();
  /** A wait has ended: a run begins as soon as it may. */
  #due = false;
  #running = false;
  /** Ends the pause or the backoff in which no run may begin. */
  #cancelHold: (() => void) | undefined;
  #stopped = false;
  /** Settles those that wait until nothing is left to run. */
  #idle: PromiseWithResolvers<void> | undefined;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#startTimer = options.startTimer ?? startTimer;
  }

  /**
   * Asks for a run that begins after now, `afterMs` from now at the latest unless a run, a pause or a held backoff
   * is in the way.
   */
  enqueue(afterMs = 0): void {
    if (this.#stopped || this.#due) return;
    const ms = Math.max(0, afterMs);
    for (const wait of this.#waits) if (wait.ms <= ms) return;
    this.#waits.add({ ms, cancel: this.#startTimer(() => this.#expire(), ms) });
  }

  /** Forgets earlier failures: the backoff starts over, and a hold that is in the way of the next run ends. */
  forget(): void {
    this.#options.retry?.backoff.reset();
    this.#cancelHold?.();
    this.#cancelHold = undefined;
    if (!this.#due || this.#running) return;
    this.#due = false;
    this.enqueue();
  }

  /**
   * Resolves when no run is in progress and none is waited for, of an enqueue, a requeue or a retry. A run must not
   * wait for this.
   */
  async idle(): Promise<void> {
    if (this.#isIdle) return;
    this.#idle ??= Promise.withResolvers();
    await this.#idle.promise;
  }

  /** Begins no run any more. Resolves when the run in progress is over; a run must not wait for this. */
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
