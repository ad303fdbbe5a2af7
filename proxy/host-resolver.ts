import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { describeError } from "../errors/errors.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Clock } from "./clock.ts";
import { type DialCause, lookupCause } from "./close-causes.ts";

/** All addresses of a host name; rejects as `node:dns` does. */
export type HostLookup = (host: string) => Promise<readonly string[]>;

/** getaddrinfo: the pod's own search list and /etc/hosts count, and RFC 6724 orders the families. */
export const systemLookup: HostLookup = async (host) => {
  const found = await lookup(host, { all: true, order: "verbatim" });
  return found.map(({ address }) => address);
};

/** No answer for this long is `dns-timeout`; getaddrinfo itself may go on for half a minute. */
export const LOOKUP_TIMEOUT_MS = 5_000;
/** Failed dials and failed look-ups make the next look-up come sooner, but not sooner than this. */
export const MIN_INTERVAL_MS = 1_000;
/**
 * "No such name" takes the last addresses away only when it has been the answer for this long. A name server that has just started
 * may say it in error; but a Service that is gone gives its ClusterIP to the next one, and that must not get our clients for ever.
 */
export const NXDOMAIN_HOLD_MS = 120_000;

export interface ResolverOptions {
  readonly lookup: HostLookup;
  readonly clock: Clock;
  readonly log: Logger;
  /** Between two look-ups while all goes well. */
  readonly intervalMs: number;
  /** The addresses have changed, or the reason why there are none. */
  readonly onChange: () => void;
}

/** Keeps the addresses of one host current. An answer that does not come changes nothing: the last good addresses stay. */
export class HostResolver {
  readonly host: string;
  /** Resolves after the first answer or failure. */
  readonly first: Promise<void>;
  #addresses: readonly string[] = [];
  #failure: DialCause | undefined;
  readonly #options: ResolverOptions;
  #inFlight: Promise<readonly string[]> | undefined;
  #cancelNext: () => void = () => {};
  #looking = false;
  #begunAt = 0;
  #delayMs = MIN_INTERVAL_MS;
  #missingSince: number | undefined;
  #stopped = false;

  constructor(host: string, options: ResolverOptions) {
    this.host = host;
    this.#options = options;
    if (isIP(host) !== 0) {
      this.#addresses = [host];
      this.first = Promise.resolve();
    } else this.first = this.#look();
  }

  /** The last good addresses; none before the first answer. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  /** Why the last look-up gave nothing; undefined after one that did. */
  get failure(): DialCause | undefined {
    return this.#failure;
  }

  /** Looks again at once, or as soon as MIN_INTERVAL_MS allows: an address has just failed. */
  refresh(): void {
    if (isIP(this.host) !== 0 || this.#looking || this.#stopped) return;
    this.#schedule(Math.max(0, this.#begunAt + MIN_INTERVAL_MS - this.#options.clock.now()));
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelNext();
  }

  #schedule(ms: number): void {
    this.#cancelNext();
    this.#cancelNext = this.#options.clock.after(ms, () => void this.#look());
  }

  async #look(): Promise<void> {
    this.#looking = true;
    this.#begunAt = this.#options.clock.now();
    const outcome = await this.#answer().catch((error: NodeJS.ErrnoException) => error);
    this.#looking = false;
    if (this.#stopped) return;
    if (outcome instanceof Error) this.#failed(outcome);
    else this.#found(outcome);
  }

  /** A look-up that timed out still occupies one of libuv's few threads: it is waited for again, not begun a second time. */
  #answer(): Promise<readonly string[]> {
    this.#inFlight ??= this.#options.lookup(this.host).finally(() => {
      this.#inFlight = undefined;
    });
    const { promise, reject } = Promise.withResolvers<never>();
    const cancel = this.#options.clock.after(LOOKUP_TIMEOUT_MS, () => reject(new Error("no answer in time")));
    return Promise.race([this.#inFlight, promise]).finally(cancel);
  }

  #found(addresses: readonly string[]): void {
    if (addresses.length === 0) {
      this.#failed(Object.assign(new Error("an empty answer"), { code: "ENODATA" }));
      return;
    }
    if (this.#failure !== undefined && this.#addresses.length > 0) {
      this.#options.log.info({ host: this.host }, "the upstream's name resolves again");
    }
    this.#failure = undefined;
    this.#missingSince = undefined;
    this.#delayMs = MIN_INTERVAL_MS;
    this.#schedule(this.#options.intervalMs);
    this.#replace(addresses);
  }

  #failed(error: NodeJS.ErrnoException): void {
    const { clock, log, intervalMs } = this.#options;
    const before = this.#failure;
    const cause = lookupCause(error.code);
    this.#failure = cause;
    this.#missingSince = cause === "dns-nxdomain" ? (this.#missingSince ?? clock.now()) : undefined;
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
    if (this.#missingSince !== undefined && clock.now() - this.#missingSince >= NXDOMAIN_HOLD_MS) {
      log.warn({ host: this.host, cause }, "the upstream's name is gone for good: its last addresses are given up");
      this.#replace([]);
    }
  }

  /** Name servers rotate their answers: another order is no change. */
  #replace(addresses: readonly string[]): void {
    if ([...this.#addresses].sort().join() === [...addresses].sort().join()) return;
    this.#addresses = addresses;
    this.#options.onChange();
  }
}
