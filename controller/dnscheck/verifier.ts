import { isIP } from "node:net";
import { describeError } from "../../errors/errors.ts";
import { show } from "../../hostmap/hostnames.ts";
import type { Reason } from "../../hostmap/types.ts";
import type { Logger } from "../../telemetry/log.ts";
import { canonicalIp } from "../targets/service-view.ts";
import type { DnsAnswer, DnsLookup } from "./lookup.ts";
import { LookupSchedule } from "./lookup-schedule.ts";

/** What is known of a name: `unknown` until DNS has answered once, a reason if it does not lead to the load balancer. */
type DnsCheckResult = "unknown" | "verified" | Reason;

interface VerifierDeps {
  readonly lookup: DnsLookup;
  /** Milliseconds, never going back. */
  readonly now: () => number;
  readonly log: Logger;
  /** A name may have another verdict than before. */
  readonly onVerdict: (name: string) => void;
}

interface Entry {
  /** Where the name is expected to lead: IP literals, in one spelling. */
  expected: readonly string[];
  verdict: DnsCheckResult;
  /** What DNS said last. */
  found: readonly string[] | undefined;
  asking: boolean;
}

/** Look-ups at a time, and at most so many a second: ten thousand names are asked for in minutes, not at once. */
const CONCURRENCY = 8;
const TICK_MS = 100;
const PER_TICK = 10;
/** An answer is believed for its TTL, within these bounds, milliseconds. */
const MIN_TTL_MS = 60_000;
const MAX_TTL_MS = 3_600_000;
/** A name that could not be looked up is tried again after this time; after many failures in a row all wait that long. */
const RETRY_MS = 30_000;
const FAILURES_IN_A_ROW = 20;

/**
 * Whether the cluster's DNS leads names to their load balancers, that is, whether the hairpin would really happen. It asks again when
 * an answer's time is up. A failure to look up says nothing: the last verdict holds.
 */
export class DnsVerifier {
  readonly #deps: VerifierDeps;
  readonly #entries = new Map<string, Entry>();
  readonly #schedule = new LookupSchedule();
  #timer: NodeJS.Timeout | undefined;
  #running = 0;
  #failures = 0;
  #pausedUntil = 0;

  constructor(deps: VerifierDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Names to follow from now on; no addresses: there is nothing to compare with. */
  expect(name: string, addresses: readonly string[]): void {
    const expected = literals(addresses);
    const entry = this.#entries.get(name);
    if (entry === undefined) {
      this.#entries.set(name, { expected, verdict: "unknown", found: undefined, asking: false });
      this.#schedule.add(name, 0);
      return;
    }
    if (entry.expected.join() === expected.join()) return;
    entry.expected = expected;
    // The answer of before may be for the other family only; asking again is cheap.
    this.#schedule.add(name, 0);
    this.#judge(name, entry);
  }

  forget(name: string): void {
    this.#entries.delete(name);
  }

  /** The verdict on a name, for all that claim it or for one that expects it at these addresses. */
  verdictOf(name: string, expected?: readonly string[]): DnsCheckResult {
    const entry = this.#entries.get(name);
    if (entry === undefined || expected === undefined) return entry?.verdict ?? "unknown";
    return verdictOn(name, literals(expected), entry.found);
  }

  /** Each name that DNS leads elsewhere, or nowhere. */
  *flagged(): Iterable<readonly [name: string, reason: Reason]> {
    for (const [name, { verdict }] of this.#entries) if (typeof verdict !== "string") yield [name, verdict];
  }

  /** Names by verdict, for the metric. */
  counts(): Record<string, number> {
    const counts: Record<string, number> = { verified: 0, unknown: 0, "dns-elsewhere": 0, "dns-absent": 0 };
    for (const { verdict } of this.#entries.values()) {
      const key = typeof verdict === "string" ? verdict : verdict.code;
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
      // Gone since it was scheduled, scheduled twice, or nothing to compare with.
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
      const answers = await Promise.all([...families].map((family) => this.#deps.lookup(name, family)));
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
    this.#judge(name, entry);
  }

  #judge(name: string, entry: Entry): void {
    entry.verdict = verdictOn(name, entry.expected, entry.found);
    this.#deps.onVerdict(name);
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

function ttlOf(answers: readonly DnsAnswer[]): number {
  const ttlMs = Math.min(...answers.map(({ ttl }) => ttl * 1000));
  return Math.min(MAX_TTL_MS, Math.max(MIN_TTL_MS, ttlMs));
}

function literals(addresses: readonly string[]): string[] {
  return addresses.filter((address) => isIP(address) !== 0).map(canonicalIp);
}

function verdictOn(name: string, expected: readonly string[], found: readonly string[] | undefined): DnsCheckResult {
  if (found === undefined || expected.length === 0) return "unknown";
  if (found.some((address) => expected.includes(address))) return "verified";
  const where = expected.join(", ");
  if (found.length === 0) {
    return { code: "dns-absent", text: `the cluster's DNS knows no address of ${show(name)}; expected is ${where}` };
  }
  const shown = found.slice(0, 4).join(", ");
  const text = `the cluster's DNS leads ${show(name)} to ${shown}, not to its load balancer (${where})`;
  return { code: "dns-elsewhere", text };
}
