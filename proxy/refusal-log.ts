import type { Logger } from "../telemetry/log.ts";
import type { Clock } from "./clock.ts";
import type { RefusalCause } from "./close-causes.ts";

/** Refusals of a cause are over when none came for this long. */
export const QUIET_MS = 10_000;

const TEXTS: Record<Exclude<RefusalCause, "upstream">, string> = {
  "limit-total": "connection limit reached (proxy.maxConnections): new connections are reset",
  "limit-source":
    "connection limit of one source reached (proxy.maxConnectionsPerSource): its new connections are reset",
  "local-limit": "out of file descriptors or socket memory: new connections are reset",
};

/** Says once that clients are being turned away, and once that it is over with how many it were; not once a client. */
export class RefusalLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #running = new Map<RefusalCause, { count: number; last: number }>();

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** `fields` are those of the first client turned away; `clients`: how many it are that this tells of. */
  refused(cause: Exclude<RefusalCause, "upstream">, fields: object, clients = 1): void {
    const running = this.#running.get(cause);
    if (running !== undefined) {
      running.count += clients;
      running.last = this.#clock.now();
      return;
    }
    this.#log.warn({ cause, ...fields }, TEXTS[cause]);
    this.#running.set(cause, { count: clients, last: this.#clock.now() });
    this.#watch(cause, QUIET_MS);
  }

  #watch(cause: RefusalCause, ms: number): void {
    this.#clock.after(ms, () => {
      const running = this.#running.get(cause);
      if (running === undefined) return;
      const left = running.last + QUIET_MS - this.#clock.now();
      if (left > 0) {
        this.#watch(cause, left);
        return;
      }
      this.#running.delete(cause);
      this.#log.info({ cause, refused: running.count }, "connections are no longer refused for this cause");
    });
  }
}
