import { isIP } from "node:net";
import type { Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { canonicalIp } from "../targets/service-view.ts";
import { decideByDns } from "./dns-decision.ts";
import type { DnsAnswer, DnsLookup } from "./lookup.ts";
import { LookupSchedule } from "./lookup-schedule.ts";

/**
 * The decision on a name: `unknown` until DNS has answered once, and on a wildcard that DNS does not have; a reason
 * if it does not resolve to the load balancer.
 */
type DnsCheckResult = "unknown" | "verified" | Reason;

interface VerifierDeps {
  readonly lookup: DnsLookup;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  readonly log: Logger;
}

interface Entry {
  /** The addresses that the name should resolve to: normalized IP literals. */
  expected: readonly string[];
  decision: DnsCheckResult;
  /** The last answer of DNS. */
  found: readonly string[] | undefined;
  asking: boolean;
}

/** Limits of concurrent look-ups and of look-ups per second: ten thousand names take minutes, to spread the load. */
const CONCURRENCY = 8;
const TICK_MS = 100;
const PER_TICK = 10;
/** An answer is valid for its TTL, within these bounds, milliseconds. */
const MIN_TTL_MS = 60_000;
const MAX_TTL_MS = 3_600_000;
/** A failed look-up is retried after this time; after many consecutive failures all look-ups pause for it. */
const RETRY_MS = 30_000;
const FAILURES_IN_A_ROW = 20;

/**
 * Verifies that the cluster's DNS resolves names to their load balancers, that is, whether there is a hairpin. It
 * looks names up again when their TTL expires. After a failed look-up the last decision is kept.
 */
export class DnsVerifier {
  readonly #deps: VerifierDeps;
  readonly #entries = new Map<string, Entry>();
  readonly #schedule = new LookupSchedule();
  #onDecision: (name: string) => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #running = 0;
  #failures = 0;
  #pausedUntil = 0;

  constructor(deps: VerifierDeps) {
    this.#deps = deps;
  }

  /** `onDecision` is called when the decision on a name may have changed. */
  start(onDecision: (name: string) => void): void {
    this.#onDecision = onDecision;
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Adds a name to verify; without addresses there is nothing to compare with. */
  expect(name: string, addresses: readonly string[]): void {
    const expected = literals(addresses);
    const entry = this.#entries.get(name);
    if (entry === undefined) {
      this.#entries.set(name, { expected, decision: "unknown", found: undefined, asking: false });
      this.#schedule.add(name, 0);
      return;
    }
    if (entry.expected.join() === expected.join()) return;
    entry.expected = expected;
    // The previous answer may be for the other family only; another look-up is cheap.
    this.#schedule.add(name, 0);
    this.#updateDecision(name, entry);
  }

  forget(name: string): void {
    this.#entries.delete(name);
  }

  /** The decision on a name, for all its claims or for one claim with these addresses. */
  decisionOf(name: string, expected?: readonly string[]): DnsCheckResult {
    const entry = this.#entries.get(name);
    if (entry === undefined || expected === undefined) return entry?.decision ?? "unknown";
    return decisionOn(name, literals(expected), entry.found);
  }

  /** Each name that resolves to other addresses, or to none. */
  *mismatches(): Iterable<readonly [name: string, reason: Reason]> {
    for (const [name, { decision }] of this.#entries) if (typeof decision !== "string") yield [name, decision];
  }

  /** Names by decision, for the metric. */
  counts(): Record<string, number> {
    const counts: Record<string, number> = { verified: 0, unknown: 0, "dns-elsewhere": 0, "dns-absent": 0 };
    for (const { decision } of this.#entries.values()) {
      const key = typeof decision === "string" ? decision : decision.code;
      counts[key] = (counts[key] ?? 0) + 1;
    }
    return counts;
  }

  #tick(): void {
    const now = this.#deps.now();
    if (now < this.#pausedUntil) return;
    for (let count = 0; count < PER_TICK && this.#running < CONCURRENCY; count += 1) {
      const name = this.#schedule.take(now);
      if (name === undefined) return;
      const entry = this.#entries.get(name);
      // Removed since it was scheduled, scheduled twice, or nothing to compare with.
      if (entry === undefined || entry.asking || entry.expected.length === 0) continue;
      void this.#ask(name, entry);
    }
  }

  async #ask(name: string, entry: Entry): Promise<void> {
    entry.asking = true;
    this.#running += 1;
    let againIn = RETRY_MS;
    try {
      const families = new Set(entry.expected.map((address) => (isIP(address) === 6 ? 6 : 4)));
      const answers = await Promise.all([...families].map((family) => this.#deps.lookup(askedFor(name), family)));
      this.#failures = 0;
      againIn = ttlOf(answers);
      this.#learn(name, entry, answers.flatMap(({ addresses }) => addresses.map(canonicalIp)).sort());
    } catch (error) {
      this.#failed(name, error);
    }
    this.#running -= 1;
    entry.asking = false;
    if (this.#entries.get(name) === entry) this.#schedule.add(name, this.#deps.now() + againIn);
  }

  #learn(name: string, entry: Entry, found: readonly string[]): void {
    if (this.#entries.get(name) !== entry || entry.found?.join() === found.join()) return;
    entry.found = found;
    this.#updateDecision(name, entry);
  }

  #updateDecision(name: string, entry: Entry): void {
    entry.decision = decisionOn(name, entry.expected, entry.found);
    this.#onDecision(name);
  }

  #failed(name: string, error: unknown): void {
    this.#failures += 1;
    this.#deps.log.debug({ name }, `not looked up: ${describeError(error)}`);
    if (this.#failures < FAILURES_IN_A_ROW) return;
    this.#failures = 0;
    this.#pausedUntil = this.#deps.now() + RETRY_MS;
    this.#deps.log.warn({ code: "dns-unreachable" }, `names are not verified for now: ${describeError(error)}`);
  }
}

/** A wildcard is asked for by a name below it that has hardly a record of its own. */
function askedFor(name: string): string {
  return isWildcard(name) ? name.replace("*", "switchback-dns-check") : name;
}

function ttlOf(answers: readonly DnsAnswer[]): number {
  const ttlMs = Math.min(...answers.map(({ ttl }) => ttl * 1000));
  return Math.min(MAX_TTL_MS, Math.max(MIN_TTL_MS, ttlMs));
}

function literals(addresses: readonly string[]): string[] {
  return addresses.filter((address) => isIP(address) !== 0).map(canonicalIp);
}

function decisionOn(name: string, expected: readonly string[], found: readonly string[] | undefined): DnsCheckResult {
  return decideByDns({
    name,
    answers: found,
    addressesOfTarget: expected,
    targetOfAddress: () => undefined,
    isOwnAddress: () => false,
  });
}
