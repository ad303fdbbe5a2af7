import { describeError, SwitchbackError } from "../errors/errors.ts";
import type { Reason } from "../hostmap/types.ts";
import type { Logger } from "../telemetry/log.ts";
import type { KubeClient } from "./client.ts";
import { createLeaseStore, type Lease, type LeaseStore, microTime } from "./lease-record.ts";
import { runTerm, type Term } from "./lease-term.ts";
import { pause, steadyNow } from "./time.ts";

export interface ElectionOptions {
  client: KubeClient;
  namespace: string;
  /** Name of the Lease. */
  name: string;
  /** Unique to this process: a pod's name and something random. Whoever finds it in the Lease takes the Lease for its own. */
  identity: string;
  /** How long others wait after the last renewal they saw before they take over. */
  leaseSeconds?: number;
  /** How long after its last renewal a leader stops by itself; less than `leaseSeconds`, and the difference is the margin for slow clocks. */
  renewDeadlineSeconds?: number;
  /** Time between renewals, and between looks at another's Lease. */
  retrySeconds?: number;
  /**
   * The leader's work. It must end soon after `signal` fires: another may lead from then on, and this process does not contend again
   * before the returned promise has settled. A rejection ends the term; to return early does not.
   */
  onStartedLeading: (signal: AbortSignal) => void | Promise<void>;
  /** Called after the signal has fired. Codes: `renew-deadline`, `lease-lost`, `work-failed`, `stopped`. */
  onStoppedLeading?: (reason: Reason) => void;
  log: Logger;
  /** Milliseconds, never going back; only differences are used. */
  now?: () => number;
  random?: () => number;
}

export interface Election {
  /** Whether this process leads at this instant, by its own clock: false as soon as the renew deadline has passed, even if no timer has fired yet. */
  readonly leading: boolean;
  /** The identity last seen in the Lease; empty or `undefined`: nobody's, or not read yet. */
  readonly holder: string | undefined;
  /** Ends the term if there is one, waits for its work, gives the Lease back. Resolves when all that is done, within the renew deadline or so. */
  stop(): Promise<void>;
}

/** What the parts of an election share. Times in milliseconds. */
export interface ElectionContext {
  readonly options: ElectionOptions;
  readonly store: LeaseStore;
  readonly leaseMs: number;
  readonly deadlineMs: number;
  readonly retryMs: number;
  /** Deadline of one call: half the renew deadline, so that one that hangs leaves time for another. */
  readonly callMs: number;
  readonly now: () => number;
  readonly random: () => number;
  readonly stopped: AbortSignal;
}

/** A Lease as this process saw it last, and when what its holder writes last changed. */
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
        if (!failing) options.log.warn({ error: describeError(error) }, "leader election: no answer, will be retried");
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

/** One try. Gives a term if the Lease is ours now. */
async function contend(context: ElectionContext, seen: Observation): Promise<Term | undefined> {
  const { options, store, now, callMs, stopped } = context;
  const lease = await store.read({ timeoutMs: callMs, signal: stopped });
  observe(context, seen, lease);
  if (!mayTake(context, seen, lease)) return undefined;
  // The time of sending: whoever sees this renewal sees it later, and so waits longer than we count on.
  const sentAt = now();
  // Not ended by `stopped`: a Lease that was taken in the meantime must be known, to be given back.
  const taken = await store.swap(lease, takeOver(context, lease), { timeoutMs: callMs });
  if (taken === undefined) return undefined;
  seen.holder = options.identity;
  return { lease: taken, renewedAt: sentAt, ended: undefined };
}

function observe({ options, now }: ElectionContext, seen: Observation, lease: Lease): void {
  const { holderIdentity, renewTime, leaseTransitions } = lease.spec ?? {};
  const mark = JSON.stringify([lease.metadata.uid, holderIdentity, renewTime, leaseTransitions]);
  if (holderIdentity !== seen.holder && holderIdentity) {
    options.log.info({ leader: holderIdentity }, "leader election: a leader is seen");
  }
  seen.holder = holderIdentity;
  if (mark === seen.mark) return;
  seen.mark = mark;
  seen.at = now();
}

/** Free, our own, or silent for as long as its holder said: told by our own clock, since clocks of different machines disagree. */
function mayTake({ options, leaseMs, now }: ElectionContext, seen: Observation, { spec }: Lease): boolean {
  if (!spec?.holderIdentity || spec.holderIdentity === options.identity) return true;
  const promised = spec.leaseDurationSeconds;
  return now() - seen.at >= (promised !== undefined && promised > 0 ? promised * 1000 : leaseMs);
}

function takeOver({ options, leaseMs }: ElectionContext, { spec }: Lease): Lease["spec"] {
  const time = microTime(Date.now());
  const same = spec?.holderIdentity === options.identity;
  return {
    holderIdentity: options.identity,
    // The API takes whole seconds; more is safe.
    leaseDurationSeconds: Math.ceil(leaseMs / 1000),
    acquireTime: (same ? spec?.acquireTime : undefined) ?? time,
    renewTime: time,
    leaseTransitions: (spec?.leaseTransitions ?? 0) + (same ? 0 : 1),
  };
}

function contextOf(options: ElectionOptions, stopped: AbortSignal): ElectionContext {
  const { leaseSeconds = 15, renewDeadlineSeconds = 10, retrySeconds = 2 } = options;
  if (!(leaseSeconds > renewDeadlineSeconds && renewDeadlineSeconds > retrySeconds * 1.2 && retrySeconds > 0)) {
    throw new SwitchbackError(
      "config-invalid",
      `leader election: leaseSeconds (${leaseSeconds}) must be above renewDeadlineSeconds (${renewDeadlineSeconds}), and that above 1.2 times retrySeconds (${retrySeconds})`,
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
