import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { pause, timeSlices } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { TargetLocations } from "../targets/resolver.ts";
import { canonicalIp } from "../targets/service-view.ts";
import {
  type DnsDecision,
  decideByDns,
  type ExpectedClaim,
  expectedAddresses,
  mismatchOf,
  type VerifyMode,
} from "./dns-decision.ts";
import { askedFor, type DnsLookup, toolAddresses } from "./lookup.ts";
import { type Decide, NameAnswer } from "./name-answer.ts";

/** By name or wildcard: all addresses that DNS has for the name. */
export type DnsAnswers = ReadonlyMap<string, readonly string[]>;

interface SweepDeps {
  readonly lookup: DnsLookup;
  readonly locations: TargetLocations;
  /** The ClusterIPs that names of the map may resolve to. A publisher gives them to DNS. */
  readonly ownAddresses: () => ReadonlySet<string>;
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
/** How much longer a look-up counts as running than it does, milliseconds. So at most 160 begin in a second. */
const REST_MS = 50;
/**
 * How much longer a look-up takes for each address that was left out of its answer, milliseconds. `node:dns` takes
 * 5 µs of CPU for each address, so a tenant with large answers gets a sixth of a core.
 */
const REST_PER_ADDRESS_MS = 0.04;
const TICK_MS = 100;
/** So many names beyond their quotas are looked at in a tick, in turns. */
const BEYOND_PER_TICK = 100;
/** How long a new name waits for its first answer while DNS answers nothing, milliseconds. */
const FIRST_ANSWER_MS = 2_000;

/** What DNS says about names, for the status. */
export type NameDecisions = Pick<DnsSweep, "answersOf" | "warningOf">;

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
export class DnsSweep {
  readonly #deps: SweepDeps;
  readonly #names = new Map<string, NameAnswer>();
  /** Names to look up, by namespace: new names, and those of the current sweep. */
  readonly #new = new Map<string, Set<string>>();
  readonly #rest = new Map<string, Set<string>>();
  /** Names without an answer that are beyond the quotas of their namespaces. */
  readonly #beyond = new Set<string>();
  /** Names that wait for their first look-up, and since when. */
  readonly #waiting = new Map<string, number>();
  /** Running look-ups by namespace. */
  readonly #running = new Map<string, number>();
  #onChange: (name: string) => void = () => {};
  #namespaceOf: NamespaceOf = () => undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Whether the cluster's DNS answers. Undefined: not known yet. */
  #isUp: boolean | undefined;
  #tools: ReadonlySet<string> = new Set();
  #nextSweepAt = Number.NEGATIVE_INFINITY;
  #answeredAt = 0;
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

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** The evidence about an object's claim of a name. The first call for a name adds it to the sweeps. */
  askAbout(name: string, object: string, claim: ExpectedClaim): Testimony {
    const hasAddresses = claim.target === undefined || expectedAddresses(claim, this.#deps.locations).length > 0;
    if (!hasAddresses && !this.#names.has(name)) return NOTHING;
    const answer = this.#names.get(name) ?? this.#add(name);
    const waits = this.#deps.mode === "auto" && claim.target !== undefined && hasAddresses;
    return {
      ...answer.decisionOn(object, claim, this.#deciderOf(name)),
      isWaiting: waits && answer.answers === undefined && !answer.tried,
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
  }

  /** The last answer of DNS. Undefined before the first answer. */
  answersOf(name: string): readonly string[] | undefined {
    return this.#names.get(name)?.answers;
  }

  /** The DNS evidence against the mapping of a name. */
  warningOf(name: string): Reason | undefined {
    return mismatchOf(this.#names.get(name)?.decisions ?? [], this.#deps.mode);
  }

  #add(name: string): NameAnswer {
    const { known, mode } = this.#deps;
    const answer = new NameAnswer(mode === "auto" && known === undefined ? SWEEPS : 1);
    this.#names.set(name, answer);
    if (known !== undefined) {
      answer.answers = known.get(name)?.map(canonicalIp);
      answer.tried = true;
      return answer;
    }
    this.#queue(name, answer);
    // A new name does not wait for the next tick.
    queueMicrotask(() => this.#lookUpDue());
    return answer;
  }

  /** A name beyond the quotas of its namespaces waits until one of them has room. */
  #queue(name: string, answer: NameAnswer): void {
    const namespace = this.#namespaceOf(name);
    if (namespace === undefined && !answer.tried) this.#beyond.add(name);
    if (namespace === undefined || this.#waiting.has(name)) return;
    if (!answer.tried) this.#waiting.set(name, this.#deps.now());
    getOrAdd(answer.tried ? this.#rest : this.#new, namespace, () => new Set<string>()).add(name);
  }

  /** Puts a name at the end of those beyond the quotas, or into the queue. */
  #queueAgain(name: string): void {
    this.#beyond.delete(name);
    this.#waiting.delete(name);
    const answer = this.#names.get(name);
    if (answer !== undefined && !answer.tried) this.#queue(name, answer);
  }

  #tick(): void {
    const now = this.#deps.now();
    if (now >= this.#nextSweepAt && this.#rest.size === 0) void this.#beginSweep(now);
    for (const name of this.#beyond.values().take(BEYOND_PER_TICK).toArray()) this.#queueAgain(name);
    this.#lookUpDue();
    this.#endWaits(now);
  }

  /** Names wait for their turn while DNS answers at all. */
  #endWaits(now: number): void {
    for (const [name, since] of this.#waiting) {
      if (now - Math.max(since, this.#answeredAt) < FIRST_ANSWER_MS) continue;
      if (this.#namespaceOf(name) === undefined) this.#queueAgain(name);
      else this.#endWait(name, this.#names.get(name));
    }
  }

  /** Returns whether the name has waited. */
  #endWait(name: string, answer: NameAnswer | undefined): boolean {
    if (answer !== undefined) answer.tried = true;
    const waited = this.#waiting.delete(name);
    if (waited) this.#onChange(name);
    return waited;
  }

  async #beginSweep(begun: number): Promise<void> {
    this.#nextSweepAt = Number.POSITIVE_INFINITY;
    await this.#askCluster();
    const slice = timeSlices();
    for (const [name, answer] of this.#isUp ? this.#names : []) {
      this.#queue(name, answer);
      await slice();
    }
    this.#nextSweepAt = begun + (this.#isUp ? SWEEP_MS : RETRY_MS);
  }

  /** Everything pauses while DNS does not even answer for a name of the cluster itself. */
  async #askCluster(): Promise<void> {
    const { lookup, clusterDomain, log } = this.#deps;
    try {
      this.#tools = await toolAddresses(lookup, clusterDomain);
      this.#isUp = true;
    } catch (error) {
      const wasUp = this.#isUp !== false;
      this.#isUp = false;
      if (wasUp) log.warn({ code: "dns-unreachable" }, `names are not verified for now: ${describeError(error)}`);
    }
  }

  #lookUpDue(): void {
    if (this.#timer === undefined || !this.#isUp) return;
    const runningOf = (namespace: string) => this.#running.get(namespace) ?? 0;
    const isFree = (namespace: string) => runningOf(namespace) < PER_NAMESPACE;
    let running = this.#running.values().reduce((sum, count) => sum + count, 0);
    while (running < CONCURRENCY) {
      const name = takeTurn(this.#new, isFree) ?? takeTurn(this.#rest, isFree);
      if (name === undefined) return;
      const answer = this.#names.get(name);
      // The quota may be used up since the name was queued.
      const namespace = this.#namespaceOf(name);
      if (namespace === undefined) this.#queueAgain(name);
      if (answer === undefined || answer.asking || namespace === undefined) continue;
      running += 1;
      this.#running.set(namespace, runningOf(namespace) + 1);
      void this.#ask(name, answer, namespace);
    }
  }

  /** A name that fails waits for the next sweep. */
  async #ask(name: string, answer: NameAnswer, namespace: string): Promise<void> {
    const isKnown = () => this.#timer !== undefined && this.#names.get(name) === answer;
    let changed = false;
    answer.asking = true;
    try {
      const addresses = await this.#lookUp(name, answer);
      this.#answeredAt = this.#deps.now();
      changed = isKnown() && answer.learn(addresses, this.#deciderOf(name));
    } catch (error) {
      this.#deps.log.debug({ name }, `not looked up: ${describeError(error)}`);
    }
    answer.asking = false;
    if (isKnown() && !this.#endWait(name, answer) && changed) this.#onChange(name);
    await pause(REST_MS);
    const left = (this.#running.get(namespace) ?? 1) - 1;
    if (left === 0) this.#running.delete(namespace);
    else this.#running.set(namespace, left);
    this.#lookUpDue();
  }

  /**
   * Looks a name up, in both families. One of them may fail, as with servers that do not know AAAA (RFC 4074). Then
   * the other one can confirm the mapping, but is no evidence against it.
   */
  async #lookUp(name: string, { claims }: NameAnswer): Promise<readonly string[]> {
    const settled = await Promise.allSettled(([4, 6] as const).map((each) => this.#deps.lookup(askedFor(name), each)));
    const answers = settled.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
    const addresses = [...new Set(answers.flatMap((one) => one.addresses.map(canonicalIp)))].sort();
    const omitted = answers.reduce((sum, one) => sum + (one.omitted ?? 0), 0);
    if (omitted > 0) await pause(omitted * REST_PER_ADDRESS_MS);
    const failed = settled.find(({ status }) => status === "rejected");
    const decide = this.#deciderOf(name);
    const isConfirmed = () => claims.some((claim) => decide(claim, addresses) === "verified");
    if (failed?.status === "rejected" && !isConfirmed()) throw failed.reason;
    return addresses;
  }

  #deciderOf(name: string): Decide {
    const isOwnAddress = (address: string) => this.#isOwn(address);
    return (claim, answers) => decideByDns(claim, { name, answers, isOwnAddress }, this.#deps.locations);
  }

  /** Whether an address is ours, or of another tool. Such an address does not show where the name leads without us. */
  #isOwn(address: string): boolean {
    const at = this.#deps.now();
    if (this.#own === undefined || at - this.#own.at >= TICK_MS)
      this.#own = { at, addresses: this.#deps.ownAddresses() };
    return this.#own.addresses.has(address) || this.#tools.has(address);
  }
}

/**
 * Takes the next name of a namespace for which `isFree` is true. That namespace gets its next turn after all others,
 * so a namespace with many names delays no other.
 */
function takeTurn(queue: Map<string, Set<string>>, isFree: (namespace: string) => boolean): string | undefined {
  for (const [namespace, names] of queue) {
    if (!isFree(namespace)) continue;
    const [name] = names;
    if (name !== undefined) names.delete(name);
    queue.delete(namespace);
    if (names.size > 0) queue.set(namespace, names);
    return name;
  }
  return undefined;
}
