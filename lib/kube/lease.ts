import type { Reason } from "#hostmap/types.ts";
import { describeError, ifFound, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { KubeClient } from "./client.ts";
import { resourcePath } from "./paths.ts";
import { pause, steadyNow, unlessAborted } from "./time.ts";
import type { CallOptions, ObjectMeta } from "./types.ts";

// Leader election by a Lease, as in client-go (tools/leaderelection/leaderelection.go): contenders compare and swap one
// Lease, and each measures times with its own monotonic clock, because clocks of nodes differ.

/** A coordination.k8s.io/v1 Lease. Times are RFC 3339 with microseconds. */
export interface Lease {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

export interface ElectionOptions {
  client: Pick<KubeClient, "get" | "apply" | "replace">;
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
  onStartedLeading: (signal: AbortSignal) => void | Promise<void>;
  log: Logger;
  /** A monotonic clock, milliseconds. Only differences are used. */
  now?: () => number;
  random?: () => number;
}

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

/** A term of leadership, from acquiring the Lease to losing it. */
interface Term {
  /** The Lease as this process last wrote it. */
  lease: Lease;
  /** When the last successful renewal was sent. Others observe it later, so they wait longer than this process. */
  renewedAt: number;
  readonly control: AbortController;
  /** The reason why it ended: `renew-deadline`, `lease-lost`, `work-failed` or `stopped`. */
  ended: Reason | undefined;
}

/** Contends for the Lease until `stop`. The configuration has checked that the times leave a margin. */
export function runElection(options: ElectionOptions): Election {
  const { client, namespace, name, identity, log, now = steadyNow, random = Math.random } = options;
  const [leaseMs, deadlineMs] = [options.leaseSeconds * 1000, options.renewDeadlineSeconds * 1000];
  const retryMs = options.retrySeconds * 1000;
  /** Half the renew deadline, so that there is time for another call after one that hangs. */
  const timeoutMs = deadlineMs / 2;
  const path = resourcePath({ group: "coordination.k8s.io", version: "v1", namespace, resource: "leases", name });
  const head = { apiVersion: "coordination.k8s.io/v1", kind: "Lease" };
  const stopping = new AbortController();
  const stopped = stopping.signal;
  /** The Lease as last observed, and when its holder's fields last changed. */
  const seen = { mark: "", at: 0, holder: undefined as string | undefined };
  let current: Term | undefined;

  /** Milliseconds until the term ends without a renewal. */
  const leftMs = ({ renewedAt }: Term): number => renewedAt + deadlineMs - now();

  function end(term: Term, reason: Reason): void {
    if (term.ended !== undefined) return;
    term.ended = reason;
    term.control.abort(new Error(`no longer the leader: ${reason.text}`));
    log.info({ code: reason.code, reason: reason.text }, "leader election: no longer leading");
  }

  /** Reads the Lease. Creates it without a holder if it does not exist. */
  async function read(call: CallOptions): Promise<Lease> {
    const found = await ifFound(client.get<Lease>(path, {}, call));
    // Server-side apply instead of POST, so that RBAC can restrict creation to this name. It has no fields of the
    // spec, so it does not change a Lease that another replica has acquired meanwhile.
    const empty = { ...head, metadata: { name, namespace }, spec: {} };
    return found ?? (await client.apply<Lease>(path, empty, { ...call, fieldManager: "switchback-election" }));
  }

  /** Updates the Lease if it is as it was read. Returns undefined if it has changed or was deleted. */
  async function swap({ metadata }: Lease, spec: Lease["spec"], call: CallOptions): Promise<Lease | undefined> {
    if (!metadata.resourceVersion)
      throw new SwitchbackError("data-corrupt", `GET ${path}: a Lease without resourceVersion`);
    try {
      // The metadata includes the uid: a recreated Lease is a different object.
      return await client.replace<Lease>(path, { ...head, metadata, spec }, call);
    } catch (error) {
      if (statusOf(error) === 409 || statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  /** Tries once to acquire the Lease: if it is free, held by this process, or expired. Returns a term on success. */
  async function acquire(): Promise<Term | undefined> {
    const lease = await read({ timeoutMs, signal: stopped });
    const { holderIdentity, renewTime, acquireTime, leaseTransitions = 0, leaseDurationSeconds } = lease.spec ?? {};
    if (holderIdentity !== seen.holder && holderIdentity) {
      log.info({ leader: holderIdentity }, "leader election: new leader observed");
    }
    seen.holder = holderIdentity;
    const mark = JSON.stringify([lease.metadata.uid, holderIdentity, renewTime, leaseTransitions]);
    if (mark !== seen.mark) Object.assign(seen, { mark, at: now() });
    const isOwn = holderIdentity === identity;
    const heldMs = leaseDurationSeconds ? leaseDurationSeconds * 1000 : leaseMs;
    if (holderIdentity && !isOwn && now() - seen.at < heldMs) return undefined;
    const renewedAt = now();
    const time = microTime(Date.now());
    const spec = {
      holderIdentity: identity,
      // The API requires whole seconds. Rounding up is safe.
      leaseDurationSeconds: Math.ceil(leaseMs / 1000),
      acquireTime: (isOwn ? acquireTime : undefined) ?? time,
      renewTime: time,
      leaseTransitions: leaseTransitions + (isOwn ? 0 : 1),
    };
    // `stop` does not abort this call: if it acquires the Lease, the Lease must be released.
    const taken = await swap(lease, spec, { timeoutMs });
    if (taken === undefined) return undefined;
    seen.holder = identity;
    return { lease: taken, renewedAt, control: new AbortController(), ended: undefined };
  }

  /** Renews the Lease once. A failure does not end the term. If failures continue, the deadline ends it. */
  async function renew(term: Term): Promise<void> {
    const call = { timeoutMs: Math.min(timeoutMs, leftMs(term)), signal: term.control.signal };
    try {
      const sentAt = now();
      const next = await swap(term.lease, { ...term.lease.spec, renewTime: microTime(Date.now()) }, call);
      if (next !== undefined) {
        term.lease = next;
        // A response after the deadline does not restore the term.
        if (leftMs(term) > 0) term.renewedAt = sentAt;
        return;
      }
      const found = await read(call);
      // This applies even without a holder: another process may have led and released the Lease since.
      if (found.spec?.holderIdentity === identity) term.lease = found;
      else {
        seen.holder = found.spec?.holderIdentity;
        end(term, { code: "lease-lost", text: "another process has taken the Lease" });
      }
    } catch (error) {
      if (term.ended === undefined) log.warn({ error: describeError(error) }, "leader election: renewal failed");
    }
  }

  async function work(term: Term): Promise<void> {
    const { signal } = term.control;
    try {
      await options.onStartedLeading(signal);
    } catch (error) {
      // After the end of the term, an error only shows how the work stopped.
      if (signal.aborted) return;
      const reason = describeError(error);
      log.error({ error: reason }, "leader election: the leader's work failed");
      end(term, { code: "work-failed", text: `the leader's work failed: ${reason}` });
    }
  }

  /** Releases the Lease, so that another replica does not have to wait for its expiry. */
  async function release(): Promise<void> {
    try {
      // A renewal that was in flight at the end of the term may have changed the version.
      const lease = await read({ timeoutMs });
      if (lease.spec?.holderIdentity !== identity) return;
      const time = microTime(Date.now());
      await swap(lease, { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1, renewTime: time }, { timeoutMs });
      seen.holder = "";
    } catch (error) {
      log.warn({ error: describeError(error) }, "leader election: the Lease could not be released");
    }
  }

  /** Does the work and renews the Lease until the term ends. Then waits for the work, and may release the Lease. */
  async function lead(term: Term): Promise<void> {
    // The Lease may have expired before the response arrived.
    if (leftMs(term) <= 0) return;
    if (stopped.aborted) return await release();
    const stop = () => end(term, { code: "stopped", text: "this process is stopping" });
    stopped.addEventListener("abort", stop, { once: true });
    current = term;
    log.info({ identity }, "leader election: leading");
    const done = new AbortController();
    const working = work(term).then(() => done.abort());
    while (term.ended === undefined) {
      await pause(Math.min(retryMs, leftMs(term)), term.control.signal);
      if (term.ended === undefined && leftMs(term) > 0) await renew(term);
      const text = `the Lease could not be renewed for ${deadlineMs / 1000} s`;
      if (leftMs(term) <= 0) end(term, { code: "renew-deadline", text });
    }
    stopped.removeEventListener("abort", stop);
    await pause(Math.max(0, leftMs(term)), done.signal);
    // Release only while this process certainly holds the Lease, and only after the work has ended.
    const isOurs = term.ended?.code === "stopped" || term.ended?.code === "work-failed";
    if (isOurs && done.signal.aborted && leftMs(term) > 0) await release();
    await unlessAborted(working, stopped).catch(() => {});
    current = undefined;
  }

  async function contend(): Promise<void> {
    let isFailing = false;
    while (!stopped.aborted) {
      try {
        const term = await acquire();
        isFailing = false;
        if (term !== undefined) await lead(term);
      } catch (error) {
        if (!isFailing) log.warn({ error: describeError(error) }, "leader election: no response, will be retried");
        isFailing = true;
      }
      await pause(retryMs * (1 + 0.2 * random()), stopped);
    }
  }

  const contending = contend();
  return {
    get leading() {
      return current !== undefined && current.ended === undefined && leftMs(current) > 0;
    },
    get holder() {
      return current === undefined || current.ended ? seen.holder : identity;
    },
    async stop() {
      stopping.abort();
      await contending;
    },
  };
}

/**
 * Formats a MicroTime. The API server requires six fractional digits and rejects three. `epochMs` is wall-clock time.
 */
export function microTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace("Z", "000Z");
}
