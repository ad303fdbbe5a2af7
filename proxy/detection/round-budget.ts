/** Maximum number of rounds that all proxies together start for a namespace within NAMESPACE_WINDOW_MS. */
const NAMESPACE_ROUNDS = 20;
const NAMESPACE_WINDOW_MS = 60_000;
/**
 * Maximum number of rounds that a proxy starts within PROXY_WINDOW_MS, one a second on average. Two may follow each
 * other at once, because a target has two web ports.
 */
const PROXY_ROUNDS = 2;
const PROXY_WINDOW_MS = 2_000;
/** Maximum number of rounds at the same time. A port that never answers occupies one for many seconds. */
const IN_FLIGHT = 8;
const IN_FLIGHT_OF_NAMESPACE = 2;
/** Minimum interval between two rechecks of this proxy, whatever the number of its ports. */
const RECHECK_MS = 6_000;

/** The last starts, the oldest first. */
class Starts {
  readonly #times: number[] = [];

  /** When the next start is allowed, with at most `count` starts in any `windowMs`. */
  freeAt(count: number, windowMs: number): number {
    const oldest = this.#times.at(-count);
    return oldest === undefined ? Number.NEGATIVE_INFINITY : oldest + windowMs;
  }

  get last(): number {
    return this.#times.at(-1) ?? Number.NEGATIVE_INFINITY;
  }

  add(now: number): void {
    this.#times.push(now);
    if (this.#times.length > NAMESPACE_ROUNDS) this.#times.shift();
  }
}

interface Share {
  readonly rounds: Starts;
  recheckAt: number;
  inFlight: number;
}

/** Limits the contacts of a proxy, and shares them among namespaces. */
export class RoundBudget {
  readonly #rounds = new Starts();
  readonly #shares = new Map<string, Share>();
  #recheckAt = Number.NEGATIVE_INFINITY;
  #inFlight = 0;
  #count = NAMESPACE_ROUNDS;
  #windowMs = NAMESPACE_WINDOW_MS;

  /**
   * Sets the number of proxies: each has its fraction of a namespace's rounds. Forgets namespaces without a contact
   * lately. Keeps the others, because a new target must not renew their share.
   */
  update(proxies: number, now: number): void {
    this.#count = Math.max(1, Math.floor(NAMESPACE_ROUNDS / proxies));
    this.#windowMs = (NAMESPACE_WINDOW_MS * this.#count * proxies) / NAMESPACE_ROUNDS;
    for (const [namespace, { rounds, recheckAt, inFlight }] of this.#shares) {
      const isOld = Math.max(rounds.last, recheckAt) + Math.max(NAMESPACE_WINDOW_MS, this.#windowMs) < now;
      if (inFlight === 0 && isOld) this.#shares.delete(namespace);
    }
  }

  /** When a contact may start; Infinity if a round has to end first. */
  freeAt(namespace: string, isRound: boolean): number {
    if (!isRound) return this.#recheckAt + RECHECK_MS;
    const share = this.#shares.get(namespace);
    if (this.#inFlight >= IN_FLIGHT || (share?.inFlight ?? 0) >= IN_FLIGHT_OF_NAMESPACE)
      return Number.POSITIVE_INFINITY;
    const ofNamespace = share?.rounds.freeAt(this.#count, this.#windowMs) ?? Number.NEGATIVE_INFINITY;
    return Math.max(this.#rounds.freeAt(PROXY_ROUNDS, PROXY_WINDOW_MS), ofNamespace);
  }

  /** The time of the namespace's last contact of this kind. The namespace that waits longest is next. */
  lastOf(namespace: string, isRound: boolean): number {
    const share = this.#shares.get(namespace);
    return (isRound ? share?.rounds.last : share?.recheckAt) ?? Number.NEGATIVE_INFINITY;
  }

  /** Counts a contact. Call the result when it has ended. */
  start(namespace: string, isRound: boolean, now: number): () => void {
    const share = this.#shares.get(namespace) ?? {
      rounds: new Starts(),
      recheckAt: Number.NEGATIVE_INFINITY,
      inFlight: 0,
    };
    this.#shares.set(namespace, share);
    if (!isRound) {
      share.recheckAt = now;
      this.#recheckAt = now;
      return () => {};
    }
    share.rounds.add(now);
    this.#rounds.add(now);
    share.inFlight += 1;
    this.#inFlight += 1;
    return () => {
      share.inFlight -= 1;
      this.#inFlight -= 1;
    };
  }
}
