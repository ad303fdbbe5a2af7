import { describeError } from "../errors/errors.ts";
import type { Reason } from "../hostmap/types.ts";
import type { ElectionContext } from "./lease.ts";
import { type Lease, microTime } from "./lease-record.ts";
import { pause } from "./time.ts";

/** The time of one leader, from the Lease taken to the Lease lost. */
export interface Term {
  /** As last written by us, or found when it was not ours any more. */
  lease: Lease;
  /** When the last successful renewal was sent, by our clock. */
  renewedAt: number;
  /** Why it ended. */
  ended: Reason | undefined;
}

/** Swaps tried in one round when others write to the Lease too. */
const SWAPS_A_ROUND = 3;

/** Leads: starts the work, renews until something ends the term, waits for the work, gives the Lease back where that is safe. */
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
  /** A timer of its own: a renewal that hangs must not keep a leader in office. */
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
  const work = worked ? startWork(context, control.signal, end) : Promise.resolve();
  while (term.ended === undefined) {
    await pause(context.retryMs, control.signal);
    if (term.ended === undefined) await renew(context, term, control.signal, end);
    if (term.ended === undefined) arm();
  }
  if (worked) reportEnd(context, term.ended);
  await finish(context, term, work);
}

function startWork(context: ElectionContext, signal: AbortSignal, end: (reason: Reason) => void): Promise<void> {
  const { options } = context;
  options.log.info({ identity: options.identity }, "leader election: leading");
  return (async () => options.onStartedLeading(signal))().catch((error: unknown) => {
    // Once the term has ended, what the work throws is how it stopped.
    if (signal.aborted) return;
    options.log.error({ error: describeError(error) }, "leader election: the leader's work failed");
    end({ code: "work-failed", text: `the leader's work failed: ${describeError(error)}` });
  });
}

/** One round: writes the Lease anew. What it cannot write leaves the term as it is: the deadline decides. */
async function renew(
  context: ElectionContext,
  term: Term,
  signal: AbortSignal,
  end: (reason: Reason) => void,
): Promise<void> {
  const { options, store, now, callMs } = context;
  const limits = { timeoutMs: callMs, signal };
  try {
    for (let swaps = 0; swaps < SWAPS_A_ROUND; swaps++) {
      const sentAt = now();
      const spec = { ...term.lease.spec, holderIdentity: options.identity, renewTime: microTime(Date.now()) };
      const next = await store.swap(term.lease, spec, limits);
      if (next) {
        term.lease = next;
        // An answer that comes after the deadline does not bring the office back: `arm` is only ever right about the past.
        if (now() < term.renewedAt + context.deadlineMs) term.renewedAt = sentAt;
        return;
      }
      const current = await store.read(limits);
      const holder = current.spec?.holderIdentity;
      term.lease = { ...current, spec: { ...term.lease.spec, ...current.spec } };
      if (holder && holder !== options.identity) return end({ code: "lease-lost", text: `${holder} holds the Lease` });
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
  // Only while the Lease is surely ours, and only when nothing of the work runs any more.
  if (releasable && settled && now() < term.renewedAt + deadlineMs) await release(context, term);
  while (!settled && !stopped.aborted) {
    options.log.warn({}, "leader election: the last term's work has not ended; not contending before it has");
    settled = await settles(work, leaseMs, stopped);
  }
  // Work that fails at once must not win the Lease at once.
  if (term.ended?.code === "work-failed") await pause(leaseMs, stopped);
}

/** Whether `work` settles within `ms`; gives up early when `signal` fires. */
async function settles(work: Promise<void>, ms: number, signal?: AbortSignal): Promise<boolean> {
  const over = new AbortController();
  const give = () => over.abort();
  signal?.addEventListener("abort", give, { once: true });
  try {
    return await Promise.race([work.then(() => true), pause(ms, over.signal).then(() => false)]);
  } finally {
    over.abort();
    signal?.removeEventListener("abort", give);
  }
}

/** Leaves the Lease free, so that another need not wait for it to run out. */
async function release({ options, store, callMs }: ElectionContext, term: Term): Promise<void> {
  const limits = { timeoutMs: callMs };
  const time = microTime(Date.now());
  try {
    let lease = term.lease;
    for (let swaps = 0; swaps < SWAPS_A_ROUND; swaps++) {
      const spec = { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1, renewTime: time };
      if (await store.swap(lease, spec, limits)) return;
      // A renewal that was on its way when the term ended has changed the version.
      lease = await store.read(limits);
      if (lease.spec?.holderIdentity !== options.identity) return;
    }
  } catch (error) {
    options.log.warn({ error: describeError(error) }, "leader election: the Lease could not be given back");
  }
}
