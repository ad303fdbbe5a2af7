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
  return new Contender(options);
}

class Contender implements Election {
  readonly #options: ElectionOptions;
  readonly #path: string;
  readonly #leaseMs: number;
  readonly #deadlineMs: number;
  readonly #retryMs: number;
  readonly #now: () => number;
  readonly #random: () => number;
  readonly #stop = new AbortController();
  readonly #stopped = this.#stop.signal;
  /** The Lease as last observed, and when its holder's fields last changed. */
  readonly #seen = { mark: "", at: 0, holder: undefined as string | undefined };
  readonly #contending: Promise<void>;
  #term: Term | undefined;

  constructor(options: ElectionOptions) {
    const { namespace, name, leaseSeconds, renewDeadlineSeconds, retrySeconds } = options;
    this.#options = options;
    this.#path = resourcePath({ group: "coordination.k8s.io", version: "v1", namespace, resource: "leases", name });
    [this.#leaseMs, this.#deadlineMs] = [leaseSeconds * 1000, renewDeadlineSeconds * 1000];
    this.#retryMs = retrySeconds * 1000;
    this.#now = options.now ?? steadyNow;
    this.#random = options.random ?? Math.random;
    this.#contending = this.#contend();
  }

  get leading(): boolean {
    return this.#term !== undefined && this.#term.ended === undefined && this.#leftMs(this.#term) > 0;
  }

  get holder(): string | undefined {
    return this.#term === undefined || this.#term.ended ? this.#seen.holder : this.#options.identity;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#contending;
  }

  async #contend(): Promise<void> {
    let isFailing = false;
    while (!this.#stopped.aborted) {
      try {
        const term = await this.#acquire();
        isFailing = false;
        if (term !== undefined) await this.#lead(term);
      } catch (error) {
        if (!isFailing)
          this.#options.log.warn({ error: describeError(error) }, "leader election: no response, will be retried");
        isFailing = true;
      }
      await pause(this.#retryMs * (1 + 0.2 * this.#random()), this.#stopped);
    }
  }

  /** Tries once to acquire the Lease. Returns a term on success. */
  async #acquire(): Promise<Term | undefined> {
    const lease = await this.#read({ timeoutMs: this.#callMs, signal: this.#stopped });
    if (!this.#mayAcquire(lease)) return undefined;
    const { identity } = this.#options;
    const { holderIdentity, acquireTime, leaseTransitions = 0 } = lease.spec ?? {};
    const renewedAt = this.#now();
    const time = microTime(Date.now());
    const isOwn = holderIdentity === identity;
    const spec = {
      holderIdentity: identity,
      // The API requires whole seconds. Rounding up is safe.
      leaseDurationSeconds: Math.ceil(this.#leaseMs / 1000),
      acquireTime: (isOwn ? acquireTime : undefined) ?? time,
      renewTime: time,
      leaseTransitions: leaseTransitions + (isOwn ? 0 : 1),
    };
    // `stop` does not abort this call: if it acquires the Lease, the Lease must be released.
    const taken = await this.#swap(lease, spec, { timeoutMs: this.#callMs });
    if (taken === undefined) return undefined;
    this.#seen.holder = this.#options.identity;
    return { lease: taken, renewedAt, control: new AbortController(), ended: undefined };
  }

  /** Does the work and renews the Lease until the term ends. Then waits for the work, and may release the Lease. */
  async #lead(term: Term): Promise<void> {
    // The Lease may have expired before the response arrived.
    if (this.#leftMs(term) <= 0) return;
    if (this.#stopped.aborted) return await this.#release();
    const stop = () => this.#end(term, { code: "stopped", text: "this process is stopping" });
    this.#stopped.addEventListener("abort", stop, { once: true });
    this.#term = term;
    this.#options.log.info({ identity: this.#options.identity }, "leader election: leading");
    const done = new AbortController();
    const working = this.#work(term).then(() => done.abort());
    while (term.ended === undefined) {
      await pause(Math.min(this.#retryMs, this.#leftMs(term)), term.control.signal);
      if (term.ended === undefined && this.#leftMs(term) > 0) await this.#renew(term);
      const text = `the Lease could not be renewed for ${this.#deadlineMs / 1000} s`;
      if (this.#leftMs(term) <= 0) this.#end(term, { code: "renew-deadline", text });
    }
    this.#stopped.removeEventListener("abort", stop);
    await pause(Math.max(0, this.#leftMs(term)), done.signal);
    // Release only while this process certainly holds the Lease, and only after the work has ended.
    const isOurs = term.ended?.code === "stopped" || term.ended?.code === "work-failed";
    if (isOurs && done.signal.aborted && this.#leftMs(term) > 0) await this.#release();
    await unlessAborted(working, this.#stopped).catch(() => {});
    this.#term = undefined;
  }

  /** Whether the Lease is free, held by this process, or has not changed for its duration. */
  #mayAcquire({ metadata, spec = {} }: Lease): boolean {
    const { holderIdentity, renewTime, leaseTransitions, leaseDurationSeconds } = spec;
    if (holderIdentity !== this.#seen.holder && holderIdentity) {
      this.#options.log.info({ leader: holderIdentity }, "leader election: new leader observed");
    }
    this.#seen.holder = holderIdentity;
    const mark = JSON.stringify([metadata.uid, holderIdentity, renewTime, leaseTransitions]);
    if (mark !== this.#seen.mark) Object.assign(this.#seen, { mark, at: this.#now() });
    if (!holderIdentity || holderIdentity === this.#options.identity) return true;
    return this.#now() - this.#seen.at >= (leaseDurationSeconds ? leaseDurationSeconds * 1000 : this.#leaseMs);
  }

  /** Renews the Lease once. A failure does not end the term. If failures continue, the deadline ends it. */
  async #renew(term: Term): Promise<void> {
    const call = { timeoutMs: Math.min(this.#callMs, this.#leftMs(term)), signal: term.control.signal };
    try {
      const sentAt = this.#now();
      const next = await this.#swap(term.lease, { ...term.lease.spec, renewTime: microTime(Date.now()) }, call);
      if (next !== undefined) {
        term.lease = next;
        // A response after the deadline does not restore the term.
        if (this.#leftMs(term) > 0) term.renewedAt = sentAt;
        return;
      }
      const found = await this.#read(call);
      // This applies even without a holder: another process may have led and released the Lease since.
      if (found.spec?.holderIdentity === this.#options.identity) term.lease = found;
      else {
        this.#seen.holder = found.spec?.holderIdentity;
        this.#end(term, { code: "lease-lost", text: "another process has taken the Lease" });
      }
    } catch (error) {
      if (term.ended === undefined)
        this.#options.log.warn({ error: describeError(error) }, "leader election: renewal failed");
    }
  }

  async #work(term: Term): Promise<void> {
    const { signal } = term.control;
    try {
      await this.#options.onStartedLeading(signal);
    } catch (error) {
      // After the end of the term, an error only shows how the work this.#stopped.
      if (signal.aborted) return;
      const reason = describeError(error);
      this.#options.log.error({ error: reason }, "leader election: the leader's work failed");
      this.#end(term, { code: "work-failed", text: `the leader's work failed: ${reason}` });
    }
  }

  #end(term: Term, reason: Reason): void {
    if (term.ended !== undefined) return;
    term.ended = reason;
    term.control.abort(new Error(`no longer the leader: ${reason.text}`));
    this.#options.log.info({ code: reason.code, reason: reason.text }, "leader election: no longer leading");
  }

  /** Releases the Lease, so that another replica does not have to wait for its expiry. */
  async #release(): Promise<void> {
    try {
      // A renewal that was in flight at the end of the term may have changed the version.
      const lease = await this.#read({ timeoutMs: this.#callMs });
      if (lease.spec?.holderIdentity !== this.#options.identity) return;
      const time = microTime(Date.now());
      await this.#swap(
        lease,
        { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1, renewTime: time },
        { timeoutMs: this.#callMs },
      );
      this.#seen.holder = "";
    } catch (error) {
      this.#options.log.warn({ error: describeError(error) }, "leader election: the Lease could not be released");
    }
  }

  /** Reads the Lease. Creates it without a holder if it does not exist. */
  async #read(call: CallOptions): Promise<Lease> {
    const found = await ifFound(this.#options.client.get<Lease>(this.#path, {}, call));
    // Server-side apply instead of POST, so that RBAC can restrict creation to this name. It has no fields of the
    // spec, so it does not change a Lease that another replica has acquired meanwhile.
    const empty = { ...HEAD, metadata: { name: this.#options.name, namespace: this.#options.namespace }, spec: {} };
    return (
      found ??
      (await this.#options.client.apply<Lease>(this.#path, empty, { ...call, fieldManager: "switchback-election" }))
    );
  }

  /** Updates the Lease if it is as it was read. Returns undefined if it has changed or was deleted. */
  async #swap({ metadata }: Lease, spec: Lease["spec"], call: CallOptions): Promise<Lease | undefined> {
    if (!metadata.resourceVersion)
      throw new SwitchbackError("data-corrupt", `GET ${this.#path}: a Lease without resourceVersion`);
    try {
      // The metadata includes the uid: a recreated Lease is a different object.
      return await this.#options.client.replace<Lease>(this.#path, { ...HEAD, metadata, spec }, call);
    } catch (error) {
      if (statusOf(error) === 409 || statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  /** Half the renew deadline, so that there is time for another call after one that hangs. */
  get #callMs(): number {
    return this.#deadlineMs / 2;
  }

  /** Milliseconds until the term ends without a renewal. */
  #leftMs({ renewedAt }: Term): number {
    return renewedAt + this.#deadlineMs - this.#now();
  }
}

const HEAD = { apiVersion: "coordination.k8s.io/v1", kind: "Lease" };

/**
 * Formats a MicroTime. The API server requires six fractional digits and rejects three. `epochMs` is wall-clock time.
 */
export function microTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace("Z", "000Z");
}
