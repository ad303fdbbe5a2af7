import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { Clock } from "./clock.ts";
import { type DialCause, lookupCause } from "./close-causes.ts";

/** Returns all addresses of a host name. Rejects as `node:dns` does. */
export type HostLookup = (host: string) => Promise<readonly string[]>;

/** getaddrinfo: uses the pod's search list and /etc/hosts, and orders address families by RFC 6724. */
export const systemLookup: HostLookup = async (host) => {
  const found = await lookup(host, { all: true, order: "verbatim" });
  return found.map(({ address }) => address);
};

/** A lookup without an answer for this long is a `dns-timeout`. getaddrinfo itself may take half a minute. */
export const LOOKUP_TIMEOUT_MS = 5_000;
/** Minimum interval between lookups. Failed dials and lookups shorten the interval to this. */
export const MIN_INTERVAL_MS = 1_000;
/**
 * NXDOMAIN removes the last addresses only after it has been the answer for this long. A name server that has just
 * started may return it in error. But the ClusterIP of a deleted Service may be reused. The next Service with this IP
 * must not receive this target's clients forever.
 */
export const NXDOMAIN_HOLD_MS = 120_000;

export interface LookupOptions {
  readonly lookup: HostLookup;
  readonly clock: Clock;
  readonly log: Logger;
  /** Interval between two lookups while they succeed. */
  readonly intervalMs: number;
}

interface ResolverOptions extends LookupOptions {
  /** Called when the addresses change, or the reason why they are missing. */
  readonly onChange: () => void;
}

/**
 * Keeps the addresses of one host current. If the name servers do not answer, the last good addresses stay.
 * `fixed` addresses and an IP literal are never looked up.
 */
export class HostResolver {
  readonly host: string;
  /** Resolves after the first lookup, successful or not. */
  readonly firstLookup: Promise<void>;
  #addresses: readonly string[] = [];
  #failure: DialCause | undefined;
  readonly #options: ResolverOptions;
  #inFlight: Promise<readonly string[]> | undefined;
  #cancelNext: () => void = () => {};
  #isLookingUp = false;
  #startedAt = 0;
  #delayMs = MIN_INTERVAL_MS;
  #nxdomainSince: number | undefined;
  readonly #isFixed: boolean;
  #stopped = false;

  constructor(
    host: string,
    options: ResolverOptions,
    fixed: readonly string[] | undefined = isIP(host) === 0 ? undefined : [host],
  ) {
    this.host = host;
    this.#options = options;
    this.#isFixed = fixed !== undefined;
    if (fixed !== undefined) {
      this.#addresses = fixed;
      this.firstLookup = Promise.resolve();
    } else this.firstLookup = this.#lookUp();
  }

  /** Whether the first lookup has not ended yet. */
  get isPending(): boolean {
    return this.#addresses.length === 0 && this.#failure === undefined;
  }

  /** The last good addresses. Empty before the first answer. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  /** Why the last lookup failed. Undefined after a successful one. */
  get failure(): DialCause | undefined {
    return this.#failure;
  }

  /** Looks the name up again after an address failed: at once, or as soon as MIN_INTERVAL_MS allows. */
  refresh(): void {
    if (this.#isFixed || this.#isLookingUp || this.#stopped) return;
    this.#schedule(Math.max(0, this.#startedAt + MIN_INTERVAL_MS - this.#options.clock.now()));
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelNext();
  }

  #schedule(ms: number): void {
    this.#cancelNext();
    this.#cancelNext = this.#options.clock.after(ms, () => void this.#lookUp());
  }

  async #lookUp(): Promise<void> {
    this.#isLookingUp = true;
    this.#startedAt = this.#options.clock.now();
    const result = await this.#lookUpWithTimeout().catch((error: NodeJS.ErrnoException) => error);
    this.#isLookingUp = false;
    if (this.#stopped) return;
    if (result instanceof Error) this.#failed(result);
    else this.#succeeded(result);
  }

  /** A lookup that timed out still occupies one of libuv's few threads. So the next one waits for the same answer. */
  #lookUpWithTimeout(): Promise<readonly string[]> {
    this.#inFlight ??= this.#options.lookup(this.host).finally(() => {
      this.#inFlight = undefined;
    });
    const { promise, reject } = Promise.withResolvers<never>();
    const cancel = this.#options.clock.after(LOOKUP_TIMEOUT_MS, () => reject(new Error("no answer in time")));
    return Promise.race([this.#inFlight, promise]).finally(cancel);
  }

  #succeeded(addresses: readonly string[]): void {
    if (addresses.length === 0) {
      this.#failed(Object.assign(new Error("an empty answer"), { code: "ENODATA" }));
      return;
    }
    if (this.#failure !== undefined && this.#addresses.length > 0) {
      this.#options.log.info({ host: this.host }, "the upstream's name resolves again");
    }
    this.#failure = undefined;
    this.#nxdomainSince = undefined;
    this.#delayMs = MIN_INTERVAL_MS;
    this.#schedule(this.#options.intervalMs);
    this.#replace(addresses);
  }

  #failed(error: NodeJS.ErrnoException): void {
    const { clock, log, intervalMs } = this.#options;
    const before = this.#failure;
    const cause = lookupCause(error.code);
    this.#failure = cause;
    this.#nxdomainSince = cause === "dns-nxdomain" ? (this.#nxdomainSince ?? clock.now()) : undefined;
    this.#schedule(this.#delayMs);
    this.#delayMs = Math.min(this.#delayMs * 2, Math.max(intervalMs, MIN_INTERVAL_MS));
    if (this.#addresses.length === 0) {
      if (before !== cause) this.#options.onChange();
      return;
    }
    if (before === undefined) {
      const fields = { host: this.host, cause, addresses: this.#addresses, err: describeError(error) };
      log.warn(fields, "the upstream's name does not resolve: its last addresses stay in use");
    }
    if (this.#nxdomainSince !== undefined && clock.now() - this.#nxdomainSince >= NXDOMAIN_HOLD_MS) {
      log.warn({ host: this.host, cause }, "the upstream's name no longer exists: its last addresses are removed");
      this.#replace([]);
    }
  }

  /** Name servers rotate their answers, so a new order is not a change. */
  #replace(addresses: readonly string[]): void {
    if ([...this.#addresses].sort().join() === [...addresses].sort().join()) return;
    this.#addresses = addresses;
    this.#options.onChange();
  }
}
