import type { Logger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import type { Clock } from "./clock.ts";
import type { RefusalCause } from "./close-causes.ts";

/** A series of refusals with the same cause ends after this time without a further refusal. */
export const QUIET_MS = 10_000;

const TEXTS: Record<Exclude<RefusalCause, "upstream">, string> = {
  "limit-total": "connection limit reached (proxy.maxConnections): new connections are reset",
  "limit-source":
    "connection limit of one source reached (proxy.maxConnectionsPerSource): its new connections are reset",
  "client-header": "a client began with a PROXY header on a discovered target's port with protocol none: it is reset",
  "local-limit": "out of file descriptors or socket memory: new connections are reset",
};

/** Logs the first refusal of a series, and the number of refusals when the series ends, but not each client. */
export class RefusalLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #throttle: LogThrottle;

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
    this.#throttle = new LogThrottle(Number.POSITIVE_INFINITY, () => clock.now());
  }

  /** Records refusals. `fields` describe the first refused client, and `clients` is the number of refused clients. */
  record(cause: Exclude<RefusalCause, "upstream">, fields: object, clients = 1): void {
    if (this.#throttle.pass(cause, { events: clients }) === undefined) return;
    this.#log.warn({ cause, ...fields }, TEXTS[cause]);
    this.#scheduleEnd(cause, QUIET_MS);
  }

  #scheduleEnd(cause: RefusalCause, ms: number): void {
    this.#clock.after(ms, () => {
      const remaining = QUIET_MS - this.#throttle.quietMs(cause);
      if (remaining > 0) {
        this.#scheduleEnd(cause, remaining);
        return;
      }
      const refused = this.#throttle.end(cause);
      this.#log.info({ cause, refused }, "refusals with this cause have ended");
    });
  }
}
