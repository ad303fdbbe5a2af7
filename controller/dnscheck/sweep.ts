import { isIP } from "node:net";
import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { timeSlices } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { TargetLocations } from "../targets/resolver.ts";
import { canonicalIp } from "../targets/service-view.ts";
import {
  type DnsDecision,
  decideOn,
  type ExpectedClaim,
  expectedAddresses,
  mismatchOf,
  overallDecision,
  type VerifyMode,
} from "./dns-decision.ts";
import { askedFor, type DnsAnswer, type DnsLookup, toolAddresses } from "./lookup.ts";
import { type Decide, NameAnswer } from "./name-answer.ts";
import { Turns } from "./turns.ts";

/** By name or wildcard: all addresses that DNS has for the name. */
export type DnsAnswers = ReadonlyMap<string, readonly string[]>;

interface SweepDeps {
  readonly lookup: DnsLookup;
  readonly locations: TargetLocations;
  /** The ClusterIPs that names of the map may resolve to. A publisher gives them to DNS. */
  readonly ownAddresses: () => ReadonlySet<string>;
  /** Whether our own addresses are known. Until then no answer means anything. */
  readonly isReady: () => boolean;
  readonly clusterDomain: string | undefined;
  readonly mode: VerifyMode;
  /** Answers that are already known, such as those of a stored cluster. If present, no name is looked up. */
  readonly known?: DnsAnswers | undefined;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  readonly log: Logger;
}

/** A namespace that claims a name and whose quota has room for it. Undefined: the name is not looked up. */
type NamespaceOf = (name: string) => string | undefined;

/** How many sweeps in a row must have an answer before it changes a decision. Without `auto`, each answer counts. */
const SWEEPS = 3;
/** How long a sweep takes at least, milliseconds. */
const SWEEP_MS = 60_000;
/** Delay of the next sweep if the cluster's DNS does not answer. */
const RETRY_MS = 30_000;
const CONCURRENCY = 8;
/** Look-ups of one namespace at the same time. */
const PER_NAMESPACE = 2;
/** Look-ups begin in ticks, so that a sweep of ten thousand names takes minutes. */
const TICK_MS = 100;
const PER_TICK = 10;
/**
 * How long each address that was left out of an answer delays the next look-up of a namespace, milliseconds. `node:dns`
 * takes 5 µs of CPU for each address, so a tenant with large answers gets a quarter of a core.
 */
const REST_MS = 0.02;
/** How long a new name waits for its first answer, milliseconds. */
const FIRST_ANSWER_MS = 2_000;
/** Names beyond their namespace's quota that are checked again in one tick. */
const BEYOND_PER_TICK = 250;

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

/** The DNS evidence about a claim. */
export interface Testimony {
  readonly decision: DnsDecision;
  /** The name has no first answer yet. */
  readonly isWaiting: boolean;
  /** Whether enough sweeps had the answer to take a mapping away. */
  readonly isSettled: boolean;
}

const NOTHING: Testimony = { decision: "unknown", isWaiting: false, isSettled: true };

/**
 * Looks up all names in the cluster's DNS, again and again, to see where they lead without us. Namespaces take turns,
 * so that slow names of one delay no other's. A name without an answer keeps its last decision until the next sweep.
 */
export class DnsSweep implements NameDecisions {
  readonly #deps: SweepDeps;
  readonly #names = new Map<string, NameAnswer>();
  readonly #new = new Turns();
  readonly #rest = new Turns();
  /** Names that wait for their first look-up. */
  readonly #waiting = new Set<string>();
  /** Names that are beyond the quotas of their namespaces. */
  readonly #beyond = new Set<string>();
  /** By namespace: until when its names are not looked up, because answers to it were large. */
  readonly #restUntil = new Map<string, number>();
  /** Running look-ups by namespace. */
  readonly #running = new Map<string, number>();
  #onChange: (name: string) => void = () => {};
  #namespaceOf: NamespaceOf = () => undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Whether all names of the start have been added. */
  #started = false;
  /** Whether the cluster's DNS answers. Undefined: not known yet. */
  #isUp: boolean | undefined;
  #tools: ReadonlySet<string> = new Set();
  #sweptAt = Number.NEGATIVE_INFINITY;
  #isBeginning = false;
  #answeredAt = 0;
  /** Look-ups that may begin before the next tick. */
  #left = PER_TICK;
  #own: { readonly at: number; readonly addresses: ReadonlySet<string> } | undefined;

  constructor(deps: SweepDeps) {
    this.#deps = deps;
  }

  /** `onChange` is called when a decision on a name may have changed. */
  start(onChange: (name: string) => void, namespaceOf: NamespaceOf): void {
    this.#onChange = onChange;
    this.#namespaceOf = namespaceOf;
    if (this.#deps.known !== undefined) return;
    this.#answeredAt = this.#deps.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#tick();
  }

  /** Ends the start: names that are added from now on are new, and wait for a limited time. */
  endStart(): void {
    this.#started = true;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** The evidence about an object's claim of a name. The first call for a name adds it to the sweeps. */
  askAbout(name: string, object: string, claim: ExpectedClaim): Testimony {
    const hasAddresses = claim.target === undefined || expectedAddresses(claim, this.#deps.locations).length > 0;
    if (!hasAddresses && !this.#names.has(name)) return NOTHING;
    const answer = this.#names.get(name) ?? this.#add(name);
    const decision = answer.decisionOn(object, claim, this.#deciderOf(name));
    const waits = this.#deps.mode === "auto" && claim.target !== undefined && hasAddresses;
    return {
      decision,
      isWaiting: waits && answer.answers === undefined && !answer.tried,
      isSettled: answer.settled,
    };
  }

  /** Call this when DNS decides nothing about an object's claim of a name, or when there is no such claim. */
  release(name: string, object: string): void {
    this.#names.get(name)?.release(object);
  }

  /** Call this when nobody claims the name any more. */
  forget(name: string): void {
    this.#names.delete(name);
    this.#waiting.delete(name);
    this.#beyond.delete(name);
  }

  answersOf(name: string): readonly string[] | undefined {
    return this.#names.get(name)?.answers;
  }

  warningOf(name: string): Reason | undefined {
    return mismatchOf(overallDecision(this.#names.get(name)?.decisions ?? []), this.#deps.mode);
  }

  hasPublicIpv6(name: string): boolean {
    return (this.answersOf(name) ?? []).some((address) => isIP(address) === 6 && !this.#isOwn(address));
  }

  *mismatches(): Iterable<readonly [name: string, reason: Reason]> {
    for (const name of this.#names.keys()) {
      const reason = this.warningOf(name);
      if (reason !== undefined) yield [name, reason];
    }
  }

  /** Leaves out names without a target that DNS does not lead to one. */
  decisions(): Iterable<DnsDecision> {
    const counted = this.#names.values().filter(({ claims, decisions }) => {
      return claims.some(({ target }) => target !== undefined) || decisions.some((one) => typeof one !== "string");
    });
    return counted.map(({ decisions }) => overallDecision(decisions));
  }

  #add(name: string): NameAnswer {
    const { known, now, mode } = this.#deps;
    const answer = new NameAnswer(now(), mode === "auto" ? SWEEPS : 1);
    answer.isOfStart = !this.#started;
    this.#names.set(name, answer);
    if (known !== undefined) {
      const addresses = known.get(name)?.map(canonicalIp);
      if (addresses === undefined) answer.tried = true;
      else answer.know(addresses);
      return answer;
    }
    this.#waiting.add(name);
    this.#queue(name, this.#new);
    // A new name does not wait for the next tick.
    queueMicrotask(() => this.#lookUpDue());
    return answer;
  }

  #queue(name: string, turns: Turns): void {
    const namespace = this.#namespaceOf(name);
    if (namespace === undefined) this.#beyond.add(name);
    else turns.add(namespace, name);
  }

  #tick(): void {
    const now = this.#deps.now();
    this.#left = PER_TICK;
    if (!this.#deps.isReady()) this.#answeredAt = now;
    for (const name of this.#beyond.values().take(BEYOND_PER_TICK).toArray()) {
      const answer = this.#names.get(name);
      if (answer === undefined || this.#namespaceOf(name) === undefined) continue;
      this.#beyond.delete(name);
      answer.addedAt = now;
      this.#queue(name, this.#new);
    }
    const isDue = now - this.#sweptAt >= SWEEP_MS && this.#rest.size === 0;
    if (isDue && !this.#isBeginning && this.#deps.isReady()) void this.#beginSweep();
    this.#lookUpDue();
    this.#endWaits(now);
  }

  /** Names of the start wait for their turn while DNS answers at all. New names wait for a limited time. */
  #endWaits(now: number): void {
    for (const name of this.#waiting) {
      const answer = this.#names.get(name);
      const { addedAt = 0, isOfStart = false } = answer ?? {};
      const since = isOfStart ? Math.max(addedAt, this.#answeredAt) : addedAt;
      if (now - since < FIRST_ANSWER_MS) continue;
      if (this.#namespaceOf(name) === undefined) this.#beyond.add(name);
      else this.#endWait(name, answer);
    }
  }

  #endWait(name: string, answer: NameAnswer | undefined): boolean {
    if (answer !== undefined) answer.tried = true;
    const waited = this.#waiting.delete(name);
    if (waited) this.#onChange(name);
    return waited;
  }

  async #beginSweep(): Promise<void> {
    this.#isBeginning = true;
    this.#sweptAt = this.#deps.now();
    await this.#askCluster();
    if (this.#isUp) {
      const slice = timeSlices();
      for (const [name, answer] of this.#names) {
        if (answer.tried) this.#queue(name, this.#rest);
        await slice();
      }
    }
    this.#isBeginning = false;
  }

  /** Everything pauses while DNS does not even answer for a name of the cluster itself. */
  async #askCluster(): Promise<void> {
    const { lookup, clusterDomain, log, now } = this.#deps;
    try {
      this.#tools = await toolAddresses(lookup, clusterDomain);
      this.#isUp = true;
    } catch (error) {
      const wasUp = this.#isUp !== false;
      this.#isUp = false;
      this.#sweptAt = now() - SWEEP_MS + RETRY_MS;
      if (wasUp) log.warn({ code: "dns-unreachable" }, `names are not verified for now: ${describeError(error)}`);
    }
  }

  #lookUpDue(): void {
    if (this.#timer === undefined || !this.#isUp || !this.#deps.isReady()) return;
    const now = this.#deps.now();
    const isFree = (namespace: string) =>
      (this.#running.get(namespace) ?? 0) < PER_NAMESPACE && (this.#restUntil.get(namespace) ?? 0) <= now;
    let running = this.#running.values().reduce((sum, count) => sum + count, 0);
    while (this.#left > 0 && running < CONCURRENCY) {
      const name = this.#new.take(isFree) ?? this.#rest.take(isFree);
      if (name === undefined) return;
      const answer = this.#names.get(name);
      // The quota may be used up since the name was queued.
      const namespace = this.#namespaceOf(name);
      if (answer === undefined || answer.asking) continue;
      if (namespace === undefined) this.#beyond.add(name);
      else {
        this.#left -= 1;
        running += 1;
        void this.#ask(name, answer, namespace);
      }
    }
  }

  async #ask(name: string, answer: NameAnswer, namespace: string): Promise<void> {
    answer.asking = true;
    this.#running.set(namespace, (this.#running.get(namespace) ?? 0) + 1);
    let changed = false;
    try {
      const { addresses, omitted = 0 } = await this.#lookUp(name, answer);
      this.#answeredAt = this.#deps.now();
      if (omitted > 0) this.#pause(namespace, omitted);
      changed = this.#names.get(name) === answer && answer.learn(addresses, this.#deciderOf(name));
    } catch (error) {
      // It waits alone until the next sweep.
      this.#deps.log.debug({ name }, `not looked up: ${describeError(error)}`);
    }
    answer.asking = false;
    const left = (this.#running.get(namespace) ?? 1) - 1;
    if (left === 0) this.#running.delete(namespace);
    else this.#running.set(namespace, left);
    if (this.#timer === undefined || this.#names.get(name) !== answer) return;
    if (!this.#endWait(name, answer) && changed) this.#onChange(name);
    this.#lookUpDue();
  }

  /**
   * Looks a name up, in both families. One of them may fail, as with servers that do not know AAAA (RFC 4074). Then
   * the other one can confirm the mapping, but is no evidence against it. The addresses that can decide come first.
   */
  async #lookUp(name: string, { claims }: NameAnswer): Promise<DnsAnswer> {
    const settled = await Promise.allSettled(([4, 6] as const).map((each) => this.#deps.lookup(askedFor(name), each)));
    const answers = settled.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
    const addresses = [...new Set(answers.flatMap((one) => one.addresses.map(canonicalIp)))].sort();
    const omitted = answers.reduce((sum, one) => sum + (one.omitted ?? 0), 0);
    const failed = settled.find(({ status }) => status === "rejected");
    const decide = this.#deciderOf(name);
    const isConfirmed = () => claims.some((claim) => decide(claim, addresses) === "verified");
    if (failed?.status === "rejected" && !isConfirmed()) throw failed.reason;
    const { locations } = this.#deps;
    const expected = new Set(claims.flatMap((claim) => expectedAddresses(claim, locations)));
    const decides = (address: string) =>
      expected.has(address) || this.#isOwn(address) || locations.targetAt(address) !== undefined;
    const { true: first = [], false: others = [] } = Object.groupBy(addresses, (one) => `${decides(one)}`);
    return { addresses: [...first, ...others], omitted };
  }

  #pause(namespace: string, omitted: number): void {
    const now = this.#deps.now();
    for (const [each, until] of this.#restUntil) if (until <= now) this.#restUntil.delete(each);
    this.#restUntil.set(namespace, Math.max(now, this.#restUntil.get(namespace) ?? 0) + omitted * REST_MS);
  }

  #deciderOf(name: string): Decide {
    const isOwnAddress = (address: string) => this.#isOwn(address);
    return (claim, answers) => decideOn(claim, { name, answers, isOwnAddress }, this.#deps.locations);
  }

  /** Whether an address is ours, or of another tool. Such an address does not show where the name leads without us. */
  #isOwn(address: string): boolean {
    const at = this.#deps.now();
    if (this.#own === undefined || at - this.#own.at >= TICK_MS)
      this.#own = { at, addresses: this.#deps.ownAddresses() };
    return this.#own.addresses.has(address) || this.#tools.has(address);
  }
}
