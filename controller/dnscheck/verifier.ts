import { isIP } from "node:net";
import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { between } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { canonicalIp } from "../targets/service-view.ts";
import type { AddressBook } from "./address-book.ts";
import { decideOn, expectedAddresses, mismatchOf, overallDecision } from "./claim-decisions.ts";
import type { DnsDecision } from "./dns-decision.ts";
import { FirstAnswers } from "./first-answers.ts";
import { askedFor, type DnsAnswer, type DnsLookup } from "./lookup.ts";
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
/**
 * How long each address that was left out of an answer delays the next look-up for the namespaces that claim the name,
 * milliseconds. `node:dns` takes 5 µs of CPU for each address, so a tenant with large answers gets a quarter of a core.
 */
const REST_MS = 0.02;
/** Names beyond their namespace's quota that are checked again in one tick. */
const BEYOND_PER_TICK = 250;
/** Interval between look-ups of the family that the target has no address of. */
const OTHER_FAMILY_MS = [45 * 60_000, 75 * 60_000] as const;
const EVERY_ANSWER: ChangeRule = { answers: 1, overMs: 0 };
const THREE_IN_A_MINUTE: ChangeRule = { answers: 3, overMs: 60_000 };

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
  /** Names that are not looked up, because they are beyond the quotas of their namespaces. */
  readonly #beyond = new Set<string>();
  #onDecision: (name: string) => void = () => {};
  #claimantsOf: (name: string) => readonly string[] = () => [""];
  /** By namespace: until when its names are not looked up, because answers to it were large. */
  readonly #restUntil = new Map<string, number>();
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
   * the caller already knows. `claimantsOf` returns the namespaces that claim a name and whose quota has room for it.
   * Names without one are not looked up.
   */
  start(onDecision: (name: string) => void, claimantsOf: (name: string) => readonly string[] = () => [""]): void {
    this.#onDecision = onDecision;
    this.#claimantsOf = claimantsOf;
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

  /**
   * Adds a name to verify, or replaces its claims. If all its claims have targets without addresses to compare with,
   * it is not looked up.
   */
  expect(name: string, claims: readonly ExpectedClaim[]): void {
    for (const { target } of claims) {
      if (target !== undefined && !this.#targets.has(target)) this.#targets.set(target, this.#factsOf(target));
    }
    const record = this.#records.get(name);
    if (record === undefined) {
      this.#add(name, claims);
      return;
    }
    const hadNoTarget = !record.claims.some(({ target }) => target !== undefined);
    if (!record.expect(claims, this.#deciderOf(name))) return;
    // From its first target on, the name waits for an answer as a new one does.
    if (hadNoTarget && record.answers === undefined) this.#wait(name, record);
    // The previous answer may lack the family of the new addresses; another look-up is cheap.
    this.#schedule.add(name, 0);
  }

  forget(name: string): void {
    this.#records.delete(name);
    this.#first.delete(name);
    this.#beyond.delete(name);
  }

  /** The decision on a name, for one claim or for all its claims. */
  decisionOf(name: string, claim?: ExpectedClaim): DnsDecision {
    const record = this.#records.get(name);
    if (record === undefined) return "unknown";
    return claim === undefined ? overallDecision(record.decisions) : record.decisionOf(claim, this.#deciderOf(name));
  }

  /** `waiting`: no first answer yet. `unsettled`: the first answer leads elsewhere and is not confirmed yet. */
  stateOf(name: string): "waiting" | "unsettled" | "settled" {
    const record = this.#records.get(name);
    const isUnasked = this.#beyond.has(name) && record?.answers === undefined;
    if (this.#first.has(name) || isUnasked) return "waiting";
    return record?.settled === false ? "unsettled" : "settled";
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

  /** Leaves out names without a target that DNS does not lead to one. */
  decisions(): Iterable<DnsDecision> {
    const counted = this.#records.values().filter(({ claims, decisions }) => {
      return claims.some(({ target }) => target !== undefined) || decisions.some((one) => typeof one !== "string");
    });
    return counted.map(({ decisions }) => overallDecision(decisions));
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
    const used = new Set<string | undefined>();
    const own = this.#deps.book.ownAddresses();
    for (const [name, record] of this.#records) {
      for (const { target } of record.claims) used.add(target);
      const isConcerned = record.claims.some((claim) =>
        claim.target === undefined ? record.isOutdated(claim, this.#deciderOf(name, own)) : changed.has(claim.target),
      );
      if (!isConcerned) continue;
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
    this.#wait(name, record);
    // A new name does not wait for the next tick.
    this.#lookUpDue();
  }

  /** Makes a name with a target wait for its first answer. */
  #wait(name: string, record: NameRecord): void {
    if (this.#deps.mode !== "auto" || this.#addressesFor(record).length === 0) return;
    // After a restart, a name that was not published before is not urgent, so it waits for its turn.
    if (this.#started || this.#deps.book.isFirstStart) this.#first.add(name, this.#deps.now());
    else this.#first.queue(name);
  }

  #tick(): void {
    this.#left = PER_TICK;
    this.#admit();
    this.#lookUpDue();
    const now = this.#deps.now();
    if (!this.#deps.book.synced) this.#answeredAt = now;
    for (const name of this.#first.takeDue(now, this.#answeredAt)) {
      if (this.#isWithinQuota(name)) this.#onDecision(name);
      else this.#beyond.add(name);
    }
  }

  /** Schedules names that are within a quota now. Each tick checks the next ones. */
  #admit(): void {
    for (const name of this.#beyond.values().take(BEYOND_PER_TICK).toArray()) {
      this.#beyond.delete(name);
      const record = this.#records.get(name);
      if (record === undefined) continue;
      if (!this.#isWithinQuota(name)) this.#beyond.add(name);
      else {
        if (this.#deps.mode === "auto" && record.answers === undefined) this.#first.add(name, this.#deps.now());
        this.#schedule.add(name, 0);
      }
    }
  }

  #lookUpDue(): void {
    const { book, tools } = this.#deps;
    const now = this.#deps.now();
    // Look up nothing that cannot be decided on yet.
    if (this.#timer === undefined || now < this.#pausedUntil || !book.synced || !tools.known) return;
    while (this.#left > 0 && this.#running < CONCURRENCY) {
      const name = this.#schedule.take(now);
      if (name === undefined) return;
      const record = this.#records.get(name);
      if (record !== undefined && !this.#mayAsk(name, now)) continue;
      this.#left -= 1;
      // The name was removed since it was scheduled, was scheduled twice, or has no addresses to compare with.
      if (record === undefined || record.asking || !this.#isLookedUp(record)) continue;
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
      this.#rest(name, answer.omitted ?? 0);
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
      if (answer !== undefined) record.otherFamily = this.#decidingFirst(answer.addresses.map(canonicalIp), expected);
      record.otherFamilyAt = this.#deps.now() + between(...OTHER_FAMILY_MS, Math.random);
      if (isAbsent && answer !== undefined) answers.push(answer);
    }
    const positive = answers.filter(({ addresses }) => addresses.length > 0);
    const addresses = new Set([...answers.flatMap((answer) => answer.addresses), ...record.otherFamily]);
    return {
      addresses: this.#decidingFirst([...addresses].map(canonicalIp).sort(), expected),
      omitted: answers.reduce((sum, { omitted = 0 }) => sum + omitted, 0),
      ttl: Math.min(...(positive.length > 0 ? positive : answers).map(({ ttl }) => ttl)),
    };
  }

  /** Sorts the addresses first that can decide: expected ones, our own ones, and those of other targets. */
  #decidingFirst(addresses: readonly string[], expected: readonly string[]): string[] {
    const { book, tools } = this.#deps;
    const own = book.ownAddresses();
    const decides = (address: string) =>
      expected.includes(address) || own.has(address) || tools.has(address) || book.targetAt(address) !== undefined;
    const { true: first = [], false: others = [] } = Object.groupBy(addresses, (one) => `${decides(one)}`);
    return [...first, ...others];
  }

  /** Whether a name may be looked up now. If not, it waits for room in a quota, or for its turn after large answers. */
  #mayAsk(name: string, now: number): boolean {
    if (!this.#isWithinQuota(name)) {
      this.#first.delete(name);
      this.#beyond.add(name);
      return false;
    }
    const at = this.#restOf(name);
    if (at > now) this.#schedule.add(name, at);
    return at <= now;
  }

  #isWithinQuota(name: string): boolean {
    return this.#claimantsOf(name).length > 0;
  }

  /** When the first of the namespaces that claim a name may look up again. */
  #restOf(name: string): number {
    return Math.min(...this.#claimantsOf(name).map((namespace) => this.#restUntil.get(namespace) ?? 0));
  }

  #rest(name: string, omitted: number): void {
    if (omitted === 0) return;
    const now = this.#deps.now();
    for (const [namespace, until] of this.#restUntil) if (until <= now) this.#restUntil.delete(namespace);
    for (const namespace of this.#claimantsOf(name)) {
      this.#restUntil.set(namespace, Math.max(now, this.#restUntil.get(namespace) ?? 0) + omitted * REST_MS);
    }
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
    const isOwnAddress = (address: string) => (own ?? book.ownAddresses()).has(address) || tools.has(address);
    return (claim, answers) => decideOn(claim, { name, answers, isOwnAddress }, book);
  }

  #addressesFor({ claims }: NameRecord): readonly string[] {
    return claims.flatMap((claim) => (claim.target === undefined ? [] : expectedAddresses(claim, this.#deps.book)));
  }

  #isLookedUp(record: NameRecord): boolean {
    return record.claims.some(({ target }) => target === undefined) || this.#addressesFor(record).length > 0;
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
