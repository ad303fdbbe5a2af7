import { isIP } from "node:net";
import type { Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";
import { describeError } from "#lib/errors/errors.ts";
import { between } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { canonicalIp, literalsOf } from "../targets/service-view.ts";
import type { AddressBook } from "./address-book.ts";
import { type DnsDecision, decideByDns } from "./dns-decision.ts";
import { FirstAnswers } from "./first-answers.ts";
import type { DnsAnswer, DnsLookup } from "./lookup.ts";
import { LookupSchedule } from "./lookup-schedule.ts";
import { type ChangeRule, type Decide, type ExpectedClaim, familiesOf, NameRecord } from "./name-record.ts";
import type { OtherTools } from "./other-tools.ts";

interface VerifierDeps {
  readonly lookup: DnsLookup;
  readonly book: AddressBook;
  /** The addresses of other tools count as ours: they do not show where the name leads without us. */
  readonly tools: Pick<OtherTools, "start" | "stop" | "known" | "has">;
  /** With `auto`, new names wait for their first answer, and a change needs several equal answers. */
  readonly mode: "auto" | "warn" | "enforce";
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  readonly log: Logger;
}

/** Limits of concurrent look-ups and of look-ups per second. They spread the load: ten thousand names take minutes. */
const CONCURRENCY = 8;
const TICK_MS = 100;
const PER_TICK = 10;
/** An answer is valid for its TTL, within these bounds, milliseconds. */
const MIN_TTL_MS = 60_000;
const MAX_TTL_MS = 3_600_000;
/**
 * A failed look-up is retried after this time. So is a look-up whose answer would change a decision. After many
 * consecutive failures, all look-ups pause for this time.
 */
const RETRY_MS = 30_000;
const FAILURES_IN_A_ROW = 20;
/** Interval between look-ups of the family that the target has no address of. */
const OTHER_FAMILY_MS = [45 * 60_000, 75 * 60_000] as const;
const EVERY_ANSWER: ChangeRule = { answers: 1, overMs: 0 };
const THREE_IN_A_MINUTE: ChangeRule = { answers: 3, overMs: 60_000 };
/** With `auto` these decisions are no problems: the name is mapped where it should be. */
const WELL_WITH_AUTO: readonly string[] = ["dns-absent", "dns-other-target"];

/** What DNS says about names, for the status. */
export interface NameDecisions {
  /** The accepted DNS answer: all addresses of the name. Undefined before the first accepted answer. */
  answersOf(name: string): readonly string[] | undefined;
  /** The DNS evidence against the mapping of a name. */
  warningOf(name: string): Reason | undefined;
  /** Whether the name has a public IPv6 address. */
  hasPublicIpv6(name: string): boolean;
  /** Each name that resolves to unexpected addresses, or to none. */
  mismatches(): Iterable<readonly [name: string, reason: Reason]>;
  /** The decision on each name. */
  decisions(): Iterable<DnsDecision>;
}

/**
 * Verifies that the cluster's DNS resolves names to their load balancers, that is, whether there is a hairpin. It
 * looks names up again when their TTL expires. After a failed look-up, it keeps the last decision.
 */
export class DnsVerifier implements NameDecisions {
  readonly #deps: VerifierDeps;
  readonly #records = new Map<string, NameRecord>();
  readonly #schedule = new LookupSchedule();
  readonly #first = new FirstAnswers();
  /** By expected target: its known addresses, and whether its names are always mapped, as one text. */
  readonly #targets = new Map<string, string>();
  #onDecision: (name: string) => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  /** Whether all names of the start have been added. */
  #started = false;
  #running = 0;
  /** Look-ups that may begin before the next tick. */
  #left = PER_TICK;
  #failures = 0;
  #pausedUntil = 0;
  #answeredAt = 0;

  constructor(deps: VerifierDeps) {
    this.#deps = deps;
  }

  /**
   * `onDecision` is called when a decision on a name may have changed. It is not called for changes of claims, which
   * the caller already knows.
   */
  start(onDecision: (name: string) => void): void {
    this.#onDecision = onDecision;
    this.#answeredAt = this.#deps.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#deps.tools.start();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#deps.tools.stop();
  }

  /** Ends the start: names that are added from now on are new. */
  endStart(): void {
    this.#started = true;
  }

  /** Adds a name to verify, or replaces its claims. A name without addresses to compare with is not looked up. */
  expect(name: string, claims: readonly ExpectedClaim[]): void {
    for (const { target } of claims) if (!this.#targets.has(target)) this.#targets.set(target, this.#factsOf(target));
    const record = this.#records.get(name);
    if (record === undefined) {
      this.#add(name, claims);
      return;
    }
    if (!record.expect(claims, this.#deciderOf(name))) return;
    // The previous answer may lack the family of the new addresses; another look-up is cheap.
    this.#schedule.add(name, 0);
  }

  forget(name: string): void {
    this.#records.delete(name);
    this.#first.delete(name);
  }

  /** The decision on a name, for one claim or for all its claims. */
  decisionOf(name: string, claim?: ExpectedClaim): DnsDecision {
    const record = this.#records.get(name);
    if (record === undefined) return "unknown";
    return claim === undefined ? overallDecision(record.decisions) : record.decisionOf(claim, this.#deciderOf(name));
  }

  /** `waiting`: no first answer yet. `unsettled`: the first answer leads elsewhere and is not confirmed yet. */
  stateOf(name: string): "waiting" | "unsettled" | "settled" {
    if (this.#first.has(name)) return "waiting";
    return this.#records.get(name)?.settled === false ? "unsettled" : "settled";
  }

  answersOf(name: string): readonly string[] | undefined {
    return this.#records.get(name)?.answers;
  }

  warningOf(name: string): Reason | undefined {
    const record = this.#records.get(name);
    return record === undefined ? undefined : this.#mismatch(record);
  }

  hasPublicIpv6(name: string): boolean {
    return this.#records.get(name)?.hasPublicIpv6 ?? false;
  }

  *mismatches(): Iterable<readonly [name: string, reason: Reason]> {
    for (const [name, record] of this.#records) {
      const reason = this.#mismatch(record);
      if (reason !== undefined) yield [name, reason];
    }
  }

  decisions(): Iterable<DnsDecision> {
    return this.#records.values().map(({ decisions }) => overallDecision(decisions));
  }

  /** Call this after any change of Services. It looks up the names of all targets whose addresses changed. */
  reconsider(): void {
    const changed = new Set<string>();
    for (const [target, before] of this.#targets) {
      const facts = this.#factsOf(target);
      if (facts === before) continue;
      this.#targets.set(target, facts);
      changed.add(target);
    }
    if (changed.size === 0) return;
    const used = new Set<string>();
    for (const [name, { claims }] of this.#records) {
      for (const { target } of claims) used.add(target);
      if (!claims.some(({ target }) => changed.has(target))) continue;
      this.#schedule.add(name, 0);
      this.#onDecision(name);
    }
    for (const target of this.#targets.keys()) if (!used.has(target)) this.#targets.delete(target);
  }

  #add(name: string, claims: readonly ExpectedClaim[]): void {
    const record = new NameRecord(this.#deps.mode === "auto" ? THREE_IN_A_MINUTE : EVERY_ANSWER);
    record.expect(claims, this.#deciderOf(name));
    // The first look-up skips the other family: a start has many look-ups, and a new name waits for its own.
    record.otherFamilyAt = this.#deps.now() + MIN_TTL_MS;
    this.#records.set(name, record);
    this.#schedule.add(name, 0);
    if (this.#deps.mode === "auto" && this.#addressesFor(record).length > 0) {
      // After a restart, a name that was not published before is not urgent, so it waits for its turn.
      if (this.#started || this.#deps.book.isFirstStart) this.#first.add(name, this.#deps.now());
      else this.#first.queue(name);
    }
    // A new name does not wait for the next tick.
    this.#lookUpDue();
  }

  #tick(): void {
    this.#left = PER_TICK;
    this.#lookUpDue();
    const now = this.#deps.now();
    if (!this.#deps.book.synced) this.#answeredAt = now;
    for (const name of this.#first.takeDue(now, this.#answeredAt)) this.#onDecision(name);
  }

  #lookUpDue(): void {
    const { book, tools } = this.#deps;
    const now = this.#deps.now();
    // Look up nothing that cannot be decided on yet.
    if (this.#timer === undefined || now < this.#pausedUntil || !book.synced || !tools.known) return;
    for (; this.#left > 0 && this.#running < CONCURRENCY; this.#left -= 1) {
      const name = this.#schedule.take(now);
      if (name === undefined) return;
      const record = this.#records.get(name);
      // The name was removed since it was scheduled, was scheduled twice, or has no addresses to compare with.
      if (record === undefined || record.asking || this.#addressesFor(record).length === 0) continue;
      this.#first.begin(name, now);
      void this.#ask(name, record);
    }
  }

  async #ask(name: string, record: NameRecord): Promise<void> {
    record.asking = true;
    this.#running += 1;
    let againIn = RETRY_MS;
    try {
      const answer = await this.#lookUp(name, record);
      this.#failures = 0;
      this.#answeredAt = this.#deps.now();
      if (this.#records.get(name) === record) this.#learn(name, record, answer.addresses);
      const ttlMs = Math.min(MAX_TTL_MS, Math.max(MIN_TTL_MS, answer.ttl * 1000));
      againIn = record.isChanging ? Math.min(RETRY_MS, ttlMs) : ttlMs;
    } catch (error) {
      this.#failed(name, error);
    }
    this.#running -= 1;
    record.asking = false;
    if (this.#records.get(name) === record) this.#schedule.add(name, this.#deps.now() + againIn);
  }

  /** Looks a name up. The family that is not compared is looked up if it decides, and occasionally for the warning. */
  async #lookUp(name: string, record: NameRecord): Promise<DnsAnswer> {
    const ask = (family: 4 | 6) => this.#deps.lookup(askedFor(name), family);
    const expected = this.#addressesFor(record);
    const needed = familiesOf(expected);
    const answers = await decisiveOf([...needed].map(ask), expected);
    const isAbsent = answers.every(({ addresses }) => addresses.length === 0);
    const other = needed.size === 1 ? (needed.has(4) ? 6 : 4) : undefined;
    if (other === undefined) record.otherFamily = [];
    else if (isAbsent || record.isChanging || this.#deps.now() >= record.otherFamilyAt) {
      // A failure of the other family is ignored: its last answer stays.
      const answer = await ask(other).catch(() => undefined);
      record.otherFamily = answer?.addresses ?? record.otherFamily;
      record.otherFamilyAt = this.#deps.now() + between(...OTHER_FAMILY_MS, Math.random);
      if (isAbsent && answer !== undefined) answers.push(answer);
    }
    const positive = answers.filter(({ addresses }) => addresses.length > 0);
    const addresses = new Set([...answers.flatMap((answer) => answer.addresses), ...record.otherFamily]);
    return {
      addresses: [...addresses].map(canonicalIp).sort(),
      ttl: Math.min(...(positive.length > 0 ? positive : answers).map(({ ttl }) => ttl)),
    };
  }

  #learn(name: string, record: NameRecord, addresses: readonly string[]): void {
    const own = this.#deps.book.ownAddresses();
    const waited = this.#first.has(name);
    this.#first.delete(name);
    record.hasPublicIpv6 = addresses.some((address) => isIP(address) === 6 && !own.has(address));
    const changed = record.learn(addresses, this.#deps.now(), this.#deciderOf(name, own));
    if (changed || waited) this.#onDecision(name);
  }

  #deciderOf(name: string, own?: ReadonlySet<string>): Decide {
    const { book, tools } = this.#deps;
    return (claim, answers) =>
      decideByDns({
        name,
        answers,
        addressesOfTarget: expectedAddresses(claim, this.#deps.book),
        externalIPs: book.externalIPsOf(claim.target),
        targetOfAddress: (address) => book.targetAt(address),
        isOwnAddress: (address) => (own ?? book.ownAddresses()).has(address) || tools.has(address),
      });
  }

  #addressesFor({ claims }: NameRecord): readonly string[] {
    return claims.flatMap((claim) => expectedAddresses(claim, this.#deps.book));
  }

  #factsOf(target: string): string {
    const { book } = this.#deps;
    return `${book.addressesOf(target).join()} ${book.mapsAlways(target)}`;
  }

  #mismatch(record: NameRecord): Reason | undefined {
    return mismatchOf(overallDecision(record.decisions), this.#deps.mode);
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

/**
 * The answers of all families. One family may fail, as with servers that do not know AAAA (RFC 4074). Then the other
 * decides if it has an expected address; else this rejects.
 */
async function decisiveOf(asked: readonly Promise<DnsAnswer>[], expected: readonly string[]): Promise<DnsAnswer[]> {
  const settled = await Promise.allSettled(asked);
  const answers = settled.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
  const failed = settled.find(({ status }) => status === "rejected");
  if (failed?.status !== "rejected") return answers;
  if (answers.some(({ addresses }) => addresses.map(canonicalIp).some((one) => expected.includes(one)))) return answers;
  throw failed.reason;
}

/** The decision on all claims of a name. It is verified if DNS leads to the target of one claim. */
export function overallDecision(decisions: readonly DnsDecision[]): DnsDecision {
  if (decisions.includes("verified")) return "verified";
  const other = decisions.find((decision) => typeof decision !== "string");
  return other ?? (decisions.includes("external") ? "external" : "unknown");
}

/** The reason in a decision that speaks against the mapping. */
export function mismatchOf(decision: DnsDecision, mode: VerifierDeps["mode"]): Reason | undefined {
  if (typeof decision === "string") return undefined;
  return mode === "auto" && WELL_WITH_AUTO.includes(decision.code) ? undefined : decision;
}

/** The addresses to compare answers with: those of the target, else the public ones of the claim. */
export function expectedAddresses(
  { target, publicAddresses }: ExpectedClaim,
  book: Pick<AddressBook, "addressesOf">,
): readonly string[] {
  const addresses = book.addressesOf(target);
  return addresses.length > 0 ? addresses : literalsOf(publicAddresses).map(canonicalIp);
}

/** Counts names by decision. */
export function countDecisions(decisions: Iterable<DnsDecision>): Record<string, number> {
  const codes = ["verified", "unknown", "dns-elsewhere", "dns-absent", "dns-other-target"];
  const counts: Record<string, number> = Object.fromEntries(codes.map((code) => [code, 0]));
  for (const decision of decisions) {
    const key = typeof decision === "string" ? decision : decision.code;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}

/** The name to look up. For a wildcard, a name below it that probably has no separate record. */
export function askedFor(name: string): string {
  return isWildcard(name) ? name.replace("*", "switchback-dns-check") : name;
}
