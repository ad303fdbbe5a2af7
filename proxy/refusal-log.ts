import type { Logger } from "#lib/telemetry/log.ts";
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
  /** Each current series: its number of refusals, and what stops the timer of its end. */
  readonly #series = new Map<RefusalCause, readonly [refused: number, keepOpen: () => void]>();

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** Records refusals. `fields` describe the first refused client, and `clients` is the number of refused clients. */
  record(cause: Exclude<RefusalCause, "upstream">, fields: object, clients = 1): void {
    const [before, keepOpen] = this.#series.get(cause) ?? [0, undefined];
    if (keepOpen === undefined) this.#log.warn({ cause, ...fields }, TEXTS[cause]);
    keepOpen?.();
    const refused = before + clients;
    const end = () => {
      this.#series.delete(cause);
      this.#log.info({ cause, refused }, "refusals with this cause have ended");
    };
    this.#series.set(cause, [refused, this.#clock.after(QUIET_MS, end)]);
  }
}
