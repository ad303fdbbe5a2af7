import type { Backoff } from "./backoff.ts";
import { retryAfterOf } from "./status.ts";

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

interface ReconcilerOptions {
  /** One run. If it does not return a promise, it ends when it returns. */
  readonly reconcile: () => ReconcileResult | undefined | Promise<ReconcileResult | undefined>;
  /** Without it, a run must never fail: an error is rethrown, uncaught. */
  readonly retry?: RetryOptions;
  /**
   * Minimum time between the end of a run and the next run, in milliseconds. Called at the end of the run. Default:
   * 0.
   */
  readonly pauseMs?: () => number;
}

const NEVER = Number.POSITIVE_INFINITY;
/** The longest wait of `setTimeout`, 24 days: above it, it would call back at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Runs one function when it is enqueued, one run at a time. After an enqueue, there is always a run that begins later
 * than the enqueue. Of several enqueues, the earliest due one counts, and its run satisfies the others too. Its clock
 * is monotonic, so a clock change affects no wait.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  /** When the next run is due. */
  #dueAt = NEVER;
  /** No run may begin before, because of a pause or a held backoff. */
  #blockedUntil = 0;
  #cancelRun = () => {};
  #running = false;
  #stopped = false;
  /** Resolves `idle` when nothing is left to run. */
  #idle: PromiseWithResolvers<void> | undefined;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
  }

  /**
   * Requests a run that begins later than now, at the latest in `afterMs`. A current run, a pause or a held backoff
   * may delay it.
   */
  enqueue(afterMs = 0): void {
    const at = performance.now() + Math.max(0, afterMs);
    if (this.#stopped || at >= this.#dueAt) return;
    this.#dueAt = at;
    this.#schedule();
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
    this.#dueAt = NEVER;
    this.#schedule();
    this.#settleIfIdle();
    await this.idle();
  }

  get #isIdle(): boolean {
    return !this.#running && this.#dueAt === NEVER;
  }

  #settleIfIdle(): void {
    if (!this.#isIdle) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  /** Plans the next run. Without a wait, it begins in the same turn of the event loop. */
  #schedule(): void {
    this.#cancelRun();
    if (this.#running || this.#dueAt === NEVER) return;
    const ms = Math.max(this.#dueAt, this.#blockedUntil) - performance.now();
    if (ms > 0) {
      const timer = setTimeout(() => this.#run(), Math.min(ms, MAX_TIMER_MS));
      this.#cancelRun = () => clearTimeout(timer);
    } else {
      const turn = setImmediate(() => this.#run());
      this.#cancelRun = () => clearImmediate(turn);
    }
  }

  #run(): void {
    this.#dueAt = NEVER;
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
    this.#blockedUntil = performance.now() + Math.max(holdMs, this.#options.pauseMs?.() ?? 0);
    if (nextMs !== undefined) this.enqueue(nextMs);
    this.#schedule();
    this.#settleIfIdle();
  }
}
