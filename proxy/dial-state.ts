import type { Logger } from "#lib/telemetry/log.ts";
import type { Clock } from "./clock.ts";
import type { DialCause } from "./close-causes.ts";

/** `unknown`: not dialled yet. */
export type DialPhase =
  | { readonly state: "unknown" }
  | { readonly state: "ok" }
  | { readonly state: "failing"; readonly cause: DialCause; readonly detail: string };

/** Minimum interval between two log lines. An upstream that fails every other time must not flood the log. */
export const MIN_LOG_INTERVAL_MS = 10_000;

/** Tracks whether an upstream is reachable. Logs each change once, not each connection. */
export class DialState {
  #phase: DialPhase = { state: "unknown" };
  /** Milliseconds since the epoch. */
  #since: number;
  #lastLogged: DialPhase = { state: "ok" };
  #lastLoggedAt = Number.NEGATIVE_INFINITY;
  #cancel: (() => void) | undefined;
  readonly #fields: object;
  readonly #log: Logger;
  readonly #clock: Clock;

  /** `fields` identify the upstream in each log line. */
  constructor(fields: object, log: Logger, clock: Clock) {
    this.#fields = fields;
    this.#log = log;
    this.#clock = clock;
    this.#since = clock.now();
  }

  get phase(): DialPhase {
    return this.#phase;
  }

  get since(): number {
    return this.#since;
  }

  set(phase: DialPhase): void {
    if (!same(this.#phase, phase)) this.#since = this.#clock.now();
    this.#phase = phase;
    this.#logChange();
  }

  stop(): void {
    this.#cancel?.();
  }

  #logChange(): void {
    // `unknown` after a failure is not logged: only a successful dial shows that the upstream is reachable again.
    if (this.#phase.state === "unknown" || same(this.#phase, this.#lastLogged) || this.#cancel !== undefined) return;
    const wait = this.#lastLoggedAt + MIN_LOG_INTERVAL_MS - this.#clock.now();
    if (wait > 0) {
      this.#cancel = this.#clock.after(wait, () => {
        this.#cancel = undefined;
        this.#logChange();
      });
      return;
    }
    this.#lastLogged = this.#phase;
    this.#lastLoggedAt = this.#clock.now();
    if (this.#phase.state === "failing") {
      const { cause, detail } = this.#phase;
      this.#log.warn({ ...this.#fields, cause, err: detail }, "upstream cannot be reached: its clients are reset");
    } else this.#log.info(this.#fields, "upstream can be reached again");
  }
}

function same(one: DialPhase, other: DialPhase): boolean {
  if (one.state !== "failing" || other.state !== "failing") return one.state === other.state;
  return one.cause === other.cause;
}
