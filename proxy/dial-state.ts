import type { Logger } from "../telemetry/log.ts";
import type { Clock } from "./clock.ts";
import type { DialCause } from "./close-causes.ts";

/** `unknown`: nobody has dialled yet. */
export type DialPhase =
  | { readonly state: "unknown" }
  | { readonly state: "ok" }
  | { readonly state: "failing"; readonly cause: DialCause; readonly detail: string };

/** After a line of the log, at least this long until the next: an upstream that fails every other time makes no flood. */
export const DAMP_MS = 10_000;

/** Whether an upstream can be reached, and one log line a change: not one a connection. */
export class DialState {
  #phase: DialPhase = { state: "unknown" };
  /** Milliseconds since the epoch. */
  #since: number;
  #said: DialPhase = { state: "ok" };
  #saidAt = Number.NEGATIVE_INFINITY;
  #cancel: (() => void) | undefined;
  readonly #fields: object;
  readonly #log: Logger;
  readonly #clock: Clock;

  /** `fields` stand in each line: which upstream this is. */
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
    this.#say();
  }

  stop(): void {
    this.#cancel?.();
  }

  #say(): void {
    // That an upstream is not known to fail any more is no news until somebody has reached it.
    if (this.#phase.state === "unknown" || same(this.#phase, this.#said) || this.#cancel !== undefined) return;
    const wait = this.#saidAt + DAMP_MS - this.#clock.now();
    if (wait > 0) {
      this.#cancel = this.#clock.after(wait, () => {
        this.#cancel = undefined;
        this.#say();
      });
      return;
    }
    this.#said = this.#phase;
    this.#saidAt = this.#clock.now();
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
