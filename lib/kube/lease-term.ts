import type { Reason } from "#hostmap/types.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { KubeClient } from "./client.ts";
import { type Lease, type LeaseStore, microTime } from "./lease-record.ts";
import { pause } from "./time.ts";

export interface ElectionOptions {
  client: KubeClient;
  namespace: string;
  /** Name of the Lease. */
  name: string;
  /**
   * Unique to this process: the pod name and a random part. A process that finds its identity in the Lease considers
   * itself the holder.
   */
  identity: string;
  /** Seconds after the last observed renewal until another replica may take over. */
  leaseSeconds: number;
  /**
   * Seconds after its last renewal until a leader stops. Must be less than `leaseSeconds`. The difference is the
   * margin for clock drift.
   */
  renewDeadlineSeconds: number;
  /** Time between renewals, and between attempts to acquire the Lease. */
  retrySeconds: number;
  /**
   * The leader's work. It must end soon after `signal` fires, because from then on another replica may lead. This
   * process does not contend again before the returned promise has settled. A rejection ends the term, but an early
   * return does not.
   */
  onStartedLeading: (signal: AbortSignal, term: LeaderTerm) => void | Promise<void>;
  /** Called after the signal has fired. Codes: `renew-deadline`, `lease-lost`, `work-failed`, `stopped`. */
  onStoppedLeading?: (reason: Reason) => void;
  log: Logger;
  /** A monotonic clock, milliseconds. Only differences are used. */
  now?: () => number;
  random?: () => number;
}

/** A term of leadership, as seen by the leader's work. */
export interface LeaderTerm {
  /**
   * Asks the API server. Resolves if the Lease is still this term's. In that case, everything that was read before
   * the call was read before any later term began. Throws `term-over`, or the error of the read.
   */
  confirm(): Promise<void>;
}

/** Shared by the parts of an election. Times in milliseconds. */
export interface ElectionContext {
  readonly options: ElectionOptions;
  readonly store: LeaseStore;
  readonly leaseMs: number;
  readonly deadlineMs: number;
  readonly retryMs: number;
  /** Timeout of one call: half the renew deadline. So there is time for another call after one that hangs. */
  readonly callMs: number;
  readonly now: () => number;
  readonly random: () => number;
  readonly stopped: AbortSignal;
}

/** A term of leadership, from acquiring the Lease to losing it. */
export interface Term {
  /** The Lease as this process last wrote it, or as it read the Lease after another process took it. */
  lease: Lease;
  /** When the last successful renewal was sent, by the local monotonic clock. */
  renewedAt: number;
  /** The reason why it ended. */
  ended: Reason | undefined;
}

/** Maximum number of compare-and-swap attempts in one round, if others write to the Lease too. */
const SWAPS_PER_ROUND = 3;

/**
 * Runs a term: starts the work, renews the Lease until the term ends, waits for the work, and releases the Lease if
 * that is safe.
 */
export async function runTerm(context: ElectionContext, term: Term): Promise<void> {
  const { now, deadlineMs, stopped } = context;
  const control = new AbortController();
  let deadline: NodeJS.Timeout | undefined;

  const end = (reason: Reason) => {
    if (term.ended) return;
    term.ended = reason;
    clearTimeout(deadline);
    stopped.removeEventListener("abort", stop);
    control.abort(new Error(`no longer the leader: ${reason.text}`));
  };
  const stop = () => end({ code: "stopped", text: "this process is stopping" });
  /** The deadline has its own timer, because a hanging renewal must not prolong the term. */
  const arm = () => {
    clearTimeout(deadline);
    const text = `the Lease could not be renewed for ${deadlineMs / 1000} s`;
    const left = term.renewedAt + deadlineMs - now();
    if (left <= 0) end({ code: "renew-deadline", text });
    else deadline = setTimeout(() => end({ code: "renew-deadline", text }), left);
  };

  arm();
  stopped.addEventListener("abort", stop, { once: true });
  if (stopped.aborted) stop();
  const worked = term.ended === undefined;
  const work = worked ? startWork(context, term, control.signal, end) : Promise.resolve();
  while (term.ended === undefined) {
    await pause(context.retryMs, control.signal);
    if (term.ended === undefined) await renew(context, term, control.signal, end);
    if (term.ended === undefined) arm();
  }
  if (worked) reportEnd(context, term.ended);
  await finish(context, term, work);
}

function startWork(
  context: ElectionContext,
  term: Term,
  signal: AbortSignal,
  end: (reason: Reason) => void,
): Promise<void> {
  const { options } = context;
  options.log.info({ identity: options.identity }, "leader election: leading");
  const leaderTerm: LeaderTerm = { confirm: () => confirm(context, term) };
  return (async () => options.onStartedLeading(signal, leaderTerm))().catch((error: unknown) => {
    // After the end of the term, an error only shows how the work stopped.
    if (signal.aborted) return;
    options.log.error({ error: describeError(error) }, "leader election: the leader's work failed");
    end({ code: "work-failed", text: `the leader's work failed: ${describeError(error)}` });
  });
}

async function confirm({ store, callMs }: ElectionContext, term: Term): Promise<void> {
  const current = term.ended === undefined ? await store.read({ timeoutMs: callMs }) : undefined;
  if (current === undefined || term.ended !== undefined || !isSameTerm(term.lease, current)) {
    throw new SwitchbackError("term-over", "this process no longer holds the Lease");
  }
}

/** Whether both belong to the same term. `leaseTransitions` counts each acquisition by another process. */
function isSameTerm(one: Lease, other: Lease): boolean {
  return (
    one.metadata.uid === other.metadata.uid &&
    one.spec?.holderIdentity === other.spec?.holderIdentity &&
    one.spec?.leaseTransitions === other.spec?.leaseTransitions
  );
}

/** Renews the Lease once. A failure does not end the term. If failures continue, the deadline ends it. */
async function renew(
  context: ElectionContext,
  term: Term,
  signal: AbortSignal,
  end: (reason: Reason) => void,
): Promise<void> {
  const { options, store, now, callMs } = context;
  const limits = { timeoutMs: callMs, signal };
  try {
    for (let swaps = 0; swaps < SWAPS_PER_ROUND; swaps++) {
      const sentAt = now();
      const spec = { ...term.lease.spec, holderIdentity: options.identity, renewTime: microTime(Date.now()) };
      const next = await store.swap(term.lease, spec, limits);
      if (next) {
        term.lease = next;
        // A response after the deadline does not restore the term.
        if (now() < term.renewedAt + context.deadlineMs) term.renewedAt = sentAt;
        return;
      }
      const current = await store.read(limits);
      // This applies even without a holder: another process may have led and released the Lease since.
      if (!isSameTerm(term.lease, current)) {
        term.lease = current;
        const text = `${current.spec?.holderIdentity || "nobody"} holds the Lease`;
        return end({ code: "lease-lost", text });
      }
      term.lease = current;
    }
  } catch (error) {
    if (!signal.aborted) options.log.warn({ error: describeError(error) }, "leader election: renewal failed");
  }
}

function reportEnd({ options }: ElectionContext, reason: Reason): void {
  options.log.info({ code: reason.code, reason: reason.text }, "leader election: no longer leading");
  try {
    options.onStoppedLeading?.(reason);
  } catch (error) {
    options.log.error({ error: describeError(error) }, "leader election: onStoppedLeading failed");
  }
}

async function finish(context: ElectionContext, term: Term, work: Promise<void>): Promise<void> {
  const { options, now, deadlineMs, leaseMs, stopped } = context;
  const releasable = term.ended?.code === "stopped" || term.ended?.code === "work-failed";
  const left = term.renewedAt + deadlineMs - now();
  let settled = await settles(work, Math.max(0, left));
  // Release only while this process certainly holds the Lease, and only after the work has ended.
  if (releasable && settled && now() < term.renewedAt + deadlineMs) await release(context, term);
  while (!settled && !stopped.aborted) {
    options.log.warn(
      {},
      "leader election: the work of the last term has not ended; waiting for it before the next election",
    );
    settled = await settles(work, leaseMs, stopped);
  }
  // If the work fails immediately, do not acquire the Lease again immediately.
  if (term.ended?.code === "work-failed") await pause(leaseMs, stopped);
}

/** Whether `work` settles within `ms`. Returns early when `signal` fires. */
async function settles(work: Promise<void>, ms: number, signal?: AbortSignal): Promise<boolean> {
  const done = new AbortController();
  const abort = () => done.abort();
  signal?.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([work.then(() => true), pause(ms, done.signal).then(() => false)]);
  } finally {
    done.abort();
    signal?.removeEventListener("abort", abort);
  }
}

/** Releases the Lease, so that another replica does not have to wait for its expiry. */
async function release({ options, store, callMs }: ElectionContext, term: Term): Promise<void> {
  const limits = { timeoutMs: callMs };
  const time = microTime(Date.now());
  try {
    let lease = term.lease;
    for (let swaps = 0; swaps < SWAPS_PER_ROUND; swaps++) {
      const spec = { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1, renewTime: time };
      if (await store.swap(lease, spec, limits)) return;
      // A renewal that was in flight at the end of the term may have changed the version.
      lease = await store.read(limits);
      if (lease.spec?.holderIdentity !== options.identity) return;
    }
  } catch (error) {
    options.log.warn({ error: describeError(error) }, "leader election: the Lease could not be released");
  }
}
