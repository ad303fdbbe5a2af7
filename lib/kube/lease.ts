import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import { createLeaseStore, type Lease, microTime } from "./lease-record.ts";
import { type ElectionContext, type ElectionOptions, runTerm, type Term } from "./lease-term.ts";
import { pause, steadyNow } from "./time.ts";

export interface Election {
  /**
   * Whether this process is the leader now, by its own clock. It is false after the renew deadline, even if no timer
   * has fired yet.
   */
  readonly leading: boolean;
  /** The identity last seen in the Lease. Empty or `undefined` if nobody holds it, or if it was not read yet. */
  readonly holder: string | undefined;
  /**
   * Ends a current term, waits for its work, and releases the Lease. Resolves afterwards, at about the renew deadline
   * at the latest.
   */
  stop(): Promise<void>;
}

/** The Lease as last observed, and when its holder's fields last changed. */
interface Observation {
  mark: string;
  at: number;
  holder: string | undefined;
}

/** Contends for the Lease until `stop`. Throws `config-invalid` if the times do not leave a margin. */
export function runElection(options: ElectionOptions): Election {
  const stop = new AbortController();
  const context = contextOf(options, stop.signal);
  const seen: Observation = { mark: "", at: 0, holder: undefined };
  let term: Term | undefined;

  async function run(): Promise<void> {
    let failing = false;
    while (!stop.signal.aborted) {
      const attempt = await contend(context, seen).catch((error: unknown) => {
        if (!failing)
          options.log.warn({ error: describeError(error) }, "leader election: no response, will be retried");
        failing = true;
        return undefined;
      });
      if (attempt) {
        failing = false;
        term = attempt;
        await runTerm(context, attempt);
        term = undefined;
        seen.holder = attempt.ended?.code === "lease-lost" ? attempt.lease.spec?.holderIdentity : undefined;
      }
      await pause(context.retryMs * (1 + 0.2 * context.random()), stop.signal);
    }
  }

  const loop = run();
  return {
    get leading() {
      return term !== undefined && term.ended === undefined && context.now() < term.renewedAt + context.deadlineMs;
    },
    get holder() {
      return term === undefined || term.ended ? seen.holder : options.identity;
    },
    async stop() {
      stop.abort();
      await loop;
    },
  };
}

/** Tries once to acquire the Lease. Returns a term on success. */
async function contend(context: ElectionContext, seen: Observation): Promise<Term | undefined> {
  const { options, store, now, callMs, stopped } = context;
  const lease = await store.read({ timeoutMs: callMs, signal: stopped });
  observe(context, seen, lease);
  if (!mayAcquire(context, seen, lease)) return undefined;
  // Use the time of sending. Other replicas observe the renewal later, so they wait longer than this process assumes.
  const sentAt = now();
  // `stopped` does not abort this call: if it acquires the Lease, the Lease must be released.
  const taken = await store.swap(lease, acquiredSpec(context, lease), { timeoutMs: callMs });
  if (taken === undefined) return undefined;
  seen.holder = options.identity;
  return { lease: taken, renewedAt: sentAt, ended: undefined };
}

function observe({ options, now }: ElectionContext, seen: Observation, lease: Lease): void {
  const { holderIdentity, renewTime, leaseTransitions } = lease.spec ?? {};
  const mark = JSON.stringify([lease.metadata.uid, holderIdentity, renewTime, leaseTransitions]);
  if (holderIdentity !== seen.holder && holderIdentity) {
    options.log.info({ leader: holderIdentity }, "leader election: new leader observed");
  }
  seen.holder = holderIdentity;
  if (mark === seen.mark) return;
  seen.mark = mark;
  seen.at = now();
}

/**
 * Whether the Lease is free, held by this process, or expired. The local clock measures expiry, because clocks of
 * nodes differ.
 */
function mayAcquire({ options, leaseMs, now }: ElectionContext, seen: Observation, { spec }: Lease): boolean {
  if (!spec?.holderIdentity || spec.holderIdentity === options.identity) return true;
  const holderSeconds = spec.leaseDurationSeconds;
  return now() - seen.at >= (holderSeconds !== undefined && holderSeconds > 0 ? holderSeconds * 1000 : leaseMs);
}

function acquiredSpec({ options, leaseMs }: ElectionContext, { spec }: Lease): Lease["spec"] {
  const time = microTime(Date.now());
  const same = spec?.holderIdentity === options.identity;
  return {
    holderIdentity: options.identity,
    // The API requires whole seconds. Rounding up is safe.
    leaseDurationSeconds: Math.ceil(leaseMs / 1000),
    acquireTime: (same ? spec?.acquireTime : undefined) ?? time,
    renewTime: time,
    leaseTransitions: (spec?.leaseTransitions ?? 0) + (same ? 0 : 1),
  };
}

function contextOf(options: ElectionOptions, stopped: AbortSignal): ElectionContext {
  const { leaseSeconds, renewDeadlineSeconds, retrySeconds } = options;
  if (!(leaseSeconds > renewDeadlineSeconds && renewDeadlineSeconds > retrySeconds * 1.2 && retrySeconds > 0)) {
    throw new SwitchbackError(
      "config-invalid",
      `leader election: leaseSeconds (${leaseSeconds}) must be greater than renewDeadlineSeconds ` +
        `(${renewDeadlineSeconds}), and that greater than 1.2 times retrySeconds (${retrySeconds})`,
    );
  }
  return {
    options,
    store: createLeaseStore(options.client, options.namespace, options.name),
    leaseMs: leaseSeconds * 1000,
    deadlineMs: renewDeadlineSeconds * 1000,
    retryMs: retrySeconds * 1000,
    callMs: (renewDeadlineSeconds * 1000) / 2,
    now: options.now ?? steadyNow,
    random: options.random ?? Math.random,
    stopped,
  };
}
