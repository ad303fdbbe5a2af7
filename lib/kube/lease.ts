import type { Reason } from "#hostmap/types.ts";
import { MAX_LEASE_SECONDS } from "#lib/config/defaults.ts";
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

/**
 * A leader that cannot renew the Lease for this part of its duration stops. The rest is the margin for clock drift. The
 * default of 15 s gives client-go's times: 10 s, and 2 s between attempts.
 */
const DEADLINE_PART = 2 / 3;
/** The time between renewals, and between attempts to acquire the Lease, as a part of its duration. */
const RETRY_PART = 2 / 15;

export interface Election {
  /**
   * Whether this process is the leader now, by its own clock. It is false after the renew deadline, even if no timer
   * has fired yet.
   */
  readonly leading: boolean;
  /**
   * Ends a current term, waits for its work, and releases the Lease. Resolves afterwards, at about the renew deadline
   * at the latest.
   */
  stop(): Promise<void>;
}

/** Contends for the Lease until `stop`. */
export function runElection(options: ElectionOptions): Election {
  return new Contender(options);
}

class Contender implements Election {
  readonly #options: ElectionOptions;
  readonly #path: string;
  readonly #deadlineMs: number;
  readonly #retryMs: number;
  readonly #now: () => number;
  readonly #stop = new AbortController();
  readonly #contending: Promise<void>;
  /** What the holder has last written into the Lease, and when that was first observed. */
  readonly #seen = { mark: "", at: 0 };
  /** The Lease as this process last wrote it. */
  #lease: Lease = { metadata: {} };
  /** When the last successful renewal was sent. Others observe it later, so they wait longer than this process. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** Aborts when the term ends. It stays until the work has ended. */
  #term: AbortController | undefined;

  constructor(options: ElectionOptions) {
    const { namespace, name, leaseSeconds } = options;
    this.#options = options;
    this.#path = resourcePath({ group: "coordination.k8s.io", version: "v1", namespace, resource: "leases", name });
    this.#deadlineMs = leaseSeconds * 1000 * DEADLINE_PART;
    this.#retryMs = leaseSeconds * 1000 * RETRY_PART;
    this.#now = options.now ?? steadyNow;
    this.#contending = this.#contend();
  }

  get leading(): boolean {
    return this.#term?.signal.aborted === false && this.#leftMs > 0;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#end({ code: "stopped", text: "this process is stopping" });
    await this.#contending;
  }

  async #contend(): Promise<void> {
    const { log, random = Math.random } = this.#options;
    const { signal } = this.#stop;
    let isFailing = false;
    while (!signal.aborted) {
      try {
        const isHolder = await this.#acquire();
        isFailing = false;
        if (isHolder) await this.#lead();
      } catch (error) {
        if (!isFailing) log.warn({ error: describeError(error) }, "leader election: no response, will be retried");
        isFailing = true;
      }
      await pause(this.#retryMs * (1 + 0.2 * random()), signal);
    }
  }

  /** Tries once to acquire the Lease. Then it may have expired before the response arrived. */
  async #acquire(): Promise<boolean> {
    const lease = await this.#read({ timeoutMs: this.#callMs, signal: this.#stop.signal });
    // `stop` does not abort the second call: if it acquires the Lease, the Lease must be released.
    return this.#mayAcquire(lease) && (await this.#hold(lease, { timeoutMs: this.#callMs })) && this.#leftMs > 0;
  }

  /** Acquires or renews the Lease if it is as it was read. Returns whether it was. */
  async #hold(lease: Lease, call: CallOptions): Promise<boolean> {
    const { identity, leaseSeconds } = this.#options;
    const { holderIdentity, acquireTime, leaseTransitions = 0 } = lease.spec ?? {};
    const sentAt = this.#now();
    const time = microTime(Date.now());
    const isOwn = holderIdentity === identity;
    const spec = {
      holderIdentity: identity,
      // The API requires whole seconds. Rounding up is safe.
      leaseDurationSeconds: Math.ceil(leaseSeconds),
      acquireTime: (isOwn ? acquireTime : undefined) ?? time,
      renewTime: time,
      leaseTransitions: leaseTransitions + (isOwn ? 0 : 1),
    };
    const held = await this.#swap(lease, spec, call);
    if (held === undefined) return false;
    this.#lease = held;
    // A response after the deadline does not restore the term.
    if (this.#term === undefined || this.#leftMs > 0) this.#renewedAt = sentAt;
    return true;
  }

  /** Whether the Lease is free, held by this process, or has not changed for its duration. */
  #mayAcquire({ metadata, spec = {} }: Lease): boolean {
    const { identity, leaseSeconds } = this.#options;
    const { holderIdentity, renewTime, leaseTransitions, leaseDurationSeconds } = spec;
    const mark = JSON.stringify([metadata.uid, holderIdentity, renewTime, leaseTransitions]);
    if (mark !== this.#seen.mark) Object.assign(this.#seen, { mark, at: this.#now() });
    if (!holderIdentity || holderIdentity === identity) return true;
    // Somebody with a stolen token may have written any number.
    const seconds = Math.min(leaseDurationSeconds || leaseSeconds, MAX_LEASE_SECONDS);
    return this.#now() - this.#seen.at >= seconds * 1000;
  }

  /** Does the work and renews the Lease until the term ends. Then waits for the work, and releases the Lease. */
  async #lead(): Promise<void> {
    if (this.#stop.signal.aborted) return await this.#release();
    const { identity, log } = this.#options;
    this.#term = new AbortController();
    const { signal } = this.#term;
    log.info({ identity }, "leader election: leading");
    const done = new AbortController();
    const working = this.#work(signal).then(() => done.abort());
    while (!signal.aborted) {
      await pause(Math.min(this.#retryMs, this.#leftMs), signal);
      if (!signal.aborted && this.#leftMs > 0) await this.#renew(signal);
      const text = `the Lease could not be renewed for ${this.#deadlineMs / 1000} s`;
      if (this.#leftMs <= 0) this.#end({ code: "renew-deadline", text });
    }
    await pause(Math.max(0, this.#leftMs), done.signal);
    // Release only while this process may still hold the Lease, and only after the work has ended.
    if (done.signal.aborted && this.#leftMs > 0) await this.#release();
    await unlessAborted(working, this.#stop.signal).catch(() => {});
    this.#term = undefined;
  }

  async #work(signal: AbortSignal): Promise<void> {
    try {
      await this.#options.onStartedLeading(signal);
    } catch (error) {
      // After the end of the term, an error only shows how the work stopped.
      if (signal.aborted) return;
      const reason = describeError(error);
      this.#options.log.error({ error: reason }, "leader election: the leader's work failed");
      this.#end({ code: "internal-error", text: `the leader's work failed: ${reason}` });
    }
  }

  /** Renews the Lease once. A failure does not end the term. If failures continue, the deadline ends it. */
  async #renew(signal: AbortSignal): Promise<void> {
    const { identity, log } = this.#options;
    const call = { timeoutMs: Math.min(this.#callMs, this.#leftMs), signal };
    try {
      if (await this.#hold(this.#lease, call)) return;
      const found = await this.#read(call);
      // This applies even without a holder: another process may have led and released the Lease since.
      if (found.spec?.holderIdentity === identity) this.#lease = found;
      else this.#end({ code: "lease-lost", text: "another process has taken the Lease" });
    } catch (error) {
      if (!signal.aborted) log.warn({ error: describeError(error) }, "leader election: renewal failed");
    }
  }

  /** Ends the term, if there is one that has not ended. */
  #end({ code, text }: Reason): void {
    if (this.#term?.signal.aborted !== false) return;
    this.#term.abort(new Error(`no longer the leader: ${text}`));
    this.#options.log.info({ code, reason: text }, "leader election: no longer leading");
  }

  /** Releases the Lease if this process holds it, so that another replica does not have to wait for its expiry. */
  async #release(): Promise<void> {
    const call = { timeoutMs: this.#callMs };
    try {
      // A renewal that was in flight at the end of the term may have changed the version.
      const lease = await this.#read(call);
      if (lease.spec?.holderIdentity !== this.#options.identity) return;
      const renewTime = microTime(Date.now());
      await this.#swap(lease, { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1, renewTime }, call);
    } catch (error) {
      this.#options.log.warn({ error: describeError(error) }, "leader election: the Lease could not be released");
    }
  }

  /** Reads the Lease. Creates it without a holder if it does not exist. */
  async #read(call: CallOptions): Promise<Lease> {
    const { client, name, namespace } = this.#options;
    const found = await ifFound(client.get<Lease>(this.#path, {}, call));
    // Server-side apply instead of POST, so that RBAC can restrict creation to this name. It has no fields of the
    // spec, so it does not change a Lease that another replica has acquired meanwhile.
    const empty = { ...HEAD, metadata: { name, namespace }, spec: {} };
    return found ?? (await client.apply<Lease>(this.#path, empty, { ...call, fieldManager: "switchback-election" }));
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
  get #leftMs(): number {
    return this.#renewedAt + this.#deadlineMs - this.#now();
  }
}

const HEAD = { apiVersion: "coordination.k8s.io/v1", kind: "Lease" };

/**
 * Formats a MicroTime. The API server requires six fractional digits and rejects three. `epochMs` is wall-clock time.
 */
export function microTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace("Z", "000Z");
}
