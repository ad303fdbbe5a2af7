import type { AskedPort } from "./asked-port.ts";

/**
 * Maximum number of rounds that a proxy starts within PROXY_WINDOW_MS, one a second on average. Two may follow each
 * other at once, because a target has two web ports.
 */
const PROXY_ROUNDS = 2;
const PROXY_WINDOW_MS = 2_000;
const NAMESPACE_ROUNDS = 20;
const NAMESPACE_WINDOW_MS = 60_000;
/** Maximum number of rounds at the same time. A port that never answers occupies one for many seconds. */
const IN_FLIGHT = 8;
const IN_FLIGHT_OF_NAMESPACE = 2;
/** One in this many rounds prefers a port that nobody waits for. So urgent ports cannot delay it forever. */
const PATIENT_EVERY = 4;

/** Allows `count` starts in any `windowMs`. */
class SlidingWindow {
  /** The last `count` starts, the oldest first. */
  readonly #starts: number[] = [];
  readonly #count: number;
  readonly #windowMs: number;

  constructor(count: number, windowMs: number) {
    this.#count = count;
    this.#windowMs = windowMs;
  }

  get lastStart(): number {
    return this.#starts.at(-1) ?? Number.NEGATIVE_INFINITY;
  }

  /** When the next start is allowed. */
  get freeAt(): number {
    const [oldest = 0] = this.#starts;
    return this.#starts.length < this.#count ? Number.NEGATIVE_INFINITY : oldest + this.#windowMs;
  }

  start(now: number): void {
    this.#starts.push(now);
    if (this.#starts.length > this.#count) this.#starts.shift();
  }
}

interface Share {
  readonly window: SlidingWindow;
  inFlight: number;
}

/** Limits the rounds of a proxy, and shares them among namespaces: the one that waits longest is next. */
export class RoundBudget {
  readonly #window = new SlidingWindow(PROXY_ROUNDS, PROXY_WINDOW_MS);
  readonly #shares = new Map<string, Share>();
  #inFlight = 0;
  #rounds = 0;

  /**
   * The port to ask now, or the time at which to look again. Infinity if another event must come first, such as the
   * end of a round.
   */
  next(ports: Iterable<AskedPort>, now: number): AskedPort | number {
    if (this.#inFlight >= IN_FLIGHT) return Number.POSITIVE_INFINITY;
    // Saves the search while no round is allowed.
    if (this.#window.freeAt > now) return this.#window.freeAt;
    let earliest = Number.POSITIVE_INFINITY;
    let best: AskedPort | undefined;
    for (const port of ports) {
      if (port.isBusy) continue;
      const startAt = Math.max(port.dueAt, this.#freeAt(port.question.namespace));
      earliest = Math.min(earliest, startAt);
      if (startAt <= now && (best === undefined || this.#isBefore(port, best))) best = port;
    }
    return best ?? earliest;
  }

  start({ question }: AskedPort, now: number): void {
    const share = this.#share(question.namespace);
    share.window.start(now);
    share.inFlight += 1;
    this.#window.start(now);
    this.#inFlight += 1;
    this.#rounds += 1;
  }

  /** `namespace` must be the one that the port had at `start`. */
  end(namespace: string): void {
    this.#share(namespace).inFlight -= 1;
    this.#inFlight -= 1;
  }

  /**
   * Drops namespaces without a round in the last minute. Keeps the others, because a new target must not renew their
   * share.
   */
  forget(now: number): void {
    for (const [namespace, { window, inFlight }] of this.#shares) {
      if (inFlight === 0 && window.lastStart + NAMESPACE_WINDOW_MS < now) this.#shares.delete(namespace);
    }
  }

  #freeAt(namespace: string): number {
    const share = this.#shares.get(namespace);
    if (share === undefined) return Number.NEGATIVE_INFINITY;
    return share.inFlight >= IN_FLIGHT_OF_NAMESPACE ? Number.POSITIVE_INFINITY : share.window.freeAt;
  }

  #isBefore(one: AskedPort, other: AskedPort): boolean {
    const isPatient = this.#rounds % PATIENT_EVERY === PATIENT_EVERY - 1;
    if (one.isUrgent !== other.isUrgent) return one.isUrgent !== isPatient;
    const [last, otherLast] = [this.#lastStart(one), this.#lastStart(other)];
    return last === otherLast ? one.dueAt < other.dueAt : last < otherLast;
  }

  #lastStart({ question }: AskedPort): number {
    return this.#shares.get(question.namespace)?.window.lastStart ?? Number.NEGATIVE_INFINITY;
  }

  #share(namespace: string): Share {
    const share = this.#shares.get(namespace) ?? {
      window: new SlidingWindow(NAMESPACE_ROUNDS, NAMESPACE_WINDOW_MS),
      inFlight: 0,
    };
    this.#shares.set(namespace, share);
    return share;
  }
}
