import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Plan } from "#hostmap/plan.ts";
import { describeError } from "#lib/errors/errors.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { pause, timeSlices } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { canonicalIp } from "../targets/service-view.ts";
import type { TargetLocations } from "../targets/target-table.ts";
import {
  type DnsDecision,
  decideByDns,
  type ExpectedClaim,
  expectedAddresses,
  FAILED,
  type VerifyMode,
} from "./dns-decision.ts";
import { askedFor, type DnsLookup, MAX_ADDRESSES, toolAddresses } from "./lookup.ts";
import { type Decide, ledTo, NameAnswer, type Subject } from "./name-answer.ts";

/** By name or wildcard: all addresses that DNS has for the name. */
export type DnsAnswers = ReadonlyMap<string, readonly string[]>;

interface SweepDeps {
  readonly lookup: DnsLookup;
  readonly locations: TargetLocations;
  /** The ClusterIPs that names of the map may resolve to. A publisher gives them to DNS. */
  readonly ownAddresses: () => ReadonlySet<string>;
  readonly clusterDomain: string | undefined;
  readonly mode: VerifyMode;
  readonly plan: Pick<Plan, "lineOf" | "isWithinQuota">;
  /** Answers that are already known, such as those of a stored cluster. If present, no name is looked up. */
  readonly known?: DnsAnswers | undefined;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  readonly log: Logger;
}

/** How many sweeps in a row must have an answer before it changes a decision. Without `auto`, each answer counts. */
const SWEEPS = 3;
/** How long a sweep takes at least, milliseconds. */
const SWEEP_MS = 60_000;
/** Delay until the cluster's DNS is asked again after it did not answer, milliseconds. */
const RETRY_MS = 2_000;
const CONCURRENCY = 8;
/** Look-ups of one namespace at the same time. */
const PER_NAMESPACE = 2;
/** A look-up keeps its place this much longer, milliseconds. So at most 160 begin in a second. */
const REST_MS = 50;
/**
 * How much longer a look-up takes if an answer has as many addresses as are read, milliseconds. It may have thousands,
 * and `node:dns` takes 5 µs of CPU for each, so a tenant with large answers gets a sixth of a core.
 */
const LARGE_REST_MS = 300;
/** How long a new name waits for its first answer while DNS answers nothing, milliseconds. */
const FIRST_ANSWER_MS = 2_000;
/** How often the names that wait are looked at, milliseconds. */
const REVIEW_MS = 500;
/** How long our own addresses are remembered, milliseconds. */
const OWN_MS = 100;

/** The DNS evidence about a claim. */
export interface Testimony {
  readonly decision: DnsDecision;
  /** DNS has said nothing yet, and may decide: the name is new, or may have its target from DNS. */
  readonly isWaiting: boolean;
  /** Whether the answer may change what is published: enough sweeps had it, or it changes nothing. */
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
  /** The two queues. They take turns, too. */
  #queues = [this.#new, this.#rest] as const;
  /** The namespaces of the running look-ups. */
  readonly #running: string[] = [];
  #onChange: (name: string) => void = () => {};
  readonly #sweeps = new Reconciler({ reconcile: () => this.#sweep() });
  readonly #reviews = new Reconciler({ reconcile: () => this.#review() });
  /** Whether the cluster's DNS answers. Undefined: not known yet. */
  #isUp: boolean | undefined;
  #tools: ReadonlySet<string> = new Set();
  #answeredAt = 0;
  #own: { readonly at: number; readonly addresses: ReadonlySet<string> } | undefined;

  constructor(deps: SweepDeps) {
    this.#deps = deps;
  }

  /** `onChange` is called when a decision on a name may have changed. */
  start(onChange: (name: string) => void): void {
    this.#onChange = onChange;
    if (this.#deps.known !== undefined) return;
    this.#answeredAt = this.#deps.now();
    this.#sweeps.enqueue();
    this.#reviews.enqueue();
  }

  /** The look-ups in progress find no name to report about. */
  stop(): void {
    this.#isUp = undefined;
    this.#names.clear();
    void this.#sweeps.stop();
    void this.#reviews.stop();
  }

  /** The evidence about a claim. The first call for a name adds it to the sweeps. */
  askAbout(subject: Subject, claim: ExpectedClaim): Testimony {
    const { name, isShared, held } = subject;
    const { plan, locations, mode } = this.#deps;
    const mayDecide = isShared || claim.target === undefined || expectedAddresses(claim, locations).length > 0;
    if (!mayDecide && !this.#names.has(name)) return NOTHING;
    const answer = this.#names.get(name) ?? this.#add(name);
    const line = plan.lineOf(name);
    const { decision, isSettled, isSilent } = answer.decisionOn(subject, claim, this.#deciderOf(name));
    if (!answer.tried) {
      this.#queue(name, answer, [subject.namespace]);
      // It does not wait for the next review.
      queueMicrotask(() => this.#lookUpDue());
    }
    const isFree = line === undefined || (line.target !== undefined && line.target === ledTo(claim, decision));
    const isNew = claim.target !== undefined && mayDecide && answer.answers === undefined && !answer.tried;
    // It may have led to that target under an earlier leader.
    const isOther = held !== undefined && held !== claim.target && locations.addressesOf(held).length > 0;
    const isWaiting = mode === "auto" && (isNew || (isSilent && isOther));
    return { decision, isWaiting, isSettled: isSettled || isFree };
  }

  /** Call this when DNS decides nothing about a claim, or when there is no such claim. */
  release(name: string, key: string): void {
    this.#names.get(name)?.release(key);
  }

  /** Call this when nobody claims the name any more. */
  forget(name: string): void {
    this.#names.delete(name);
  }

  /** The last answer of DNS. Undefined before the first answer. */
  answersOf(name: string): readonly string[] | undefined {
    return this.#names.get(name)?.answers?.filter((each) => each !== FAILED);
  }

  #add(name: string): NameAnswer {
    const { known, mode, now } = this.#deps;
    const answer = new NameAnswer(mode === "auto" && known === undefined ? SWEEPS : 1, now());
    this.#names.set(name, answer);
    if (known !== undefined) {
      answer.answers = known.get(name)?.map(canonicalIp);
      answer.tried = true;
    }
    return answer;
  }

  /**
   * A name waits in the turns of each namespace that claims it, so that slow names of another delay none. Beyond the
   * quotas of its namespaces, it is not looked up. While DNS is down, nothing takes names from here.
   */
  #queue(name: string, answer: NameAnswer, namespaces: Iterable<string> = answer.namespaces): void {
    if (answer.asking || !this.#isUp) return;
    const queue = answer.tried ? this.#rest : this.#new;
    for (const namespace of namespaces)
      if (this.#deps.plan.isWithinQuota(namespace, name)) getOrAdd(queue, namespace, () => new Set<string>()).add(name);
  }

  /** A name waits for its turn while DNS answers at all, and for room in the quota. */
  async #review(): Promise<ReconcileResult> {
    const slice = timeSlices();
    for (const [name, answer] of this.#names) {
      if (answer.tried) continue;
      if (this.#mayWait(name, answer)) this.#queue(name, answer);
      else this.#endWait(name, answer);
      const pausing = slice();
      // Only a pause lets the objects be decided again: those of many names must not be decided after each name.
      if (pausing !== undefined) await pausing;
    }
    this.#lookUpDue();
    return { requeueAfter: REVIEW_MS };
  }

  #mayWait(name: string, answer: NameAnswer): boolean {
    const { plan, now } = this.#deps;
    const isRoom = answer.namespaces.values().some((namespace) => plan.isWithinQuota(namespace, name));
    if (!isRoom) answer.since = now();
    return now() - Math.max(answer.since, this.#answeredAt) < FIRST_ANSWER_MS;
  }

  #endWait(name: string, answer: NameAnswer): void {
    answer.tried = true;
    this.#onChange(name);
  }

  /** Queues all names. Those that still wait for their turn keep their place. */
  async #sweep(): Promise<ReconcileResult> {
    const begun = this.#deps.now();
    await this.#askCluster();
    if (!this.#isUp) return { requeueAfter: RETRY_MS };
    const slice = timeSlices();
    for (const [name, answer] of this.#names) {
      answer.isDue = true;
      this.#queue(name, answer);
      await slice();
    }
    this.#lookUpDue();
    return { requeueAfter: begun + SWEEP_MS - this.#deps.now() };
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
    if (!this.#isUp) return;
    const isFree = (namespace: string) => this.#running.filter((each) => each === namespace).length < PER_NAMESPACE;
    while (this.#running.length < CONCURRENCY) {
      // If new names were always first, slow ones would keep the others from being swept.
      const [first, second] = this.#queues;
      const turn = takeTurn(first, isFree) ?? takeTurn(second, isFree);
      if (turn === undefined) return;
      this.#queues = [second, first];
      const { namespace, name } = turn;
      const answer = this.#names.get(name);
      // Another namespace may have had a turn for the name, and the quota may be used up by now.
      const isDone = answer === undefined || answer.asking || !answer.isDue;
      if (isDone || !this.#deps.plan.isWithinQuota(namespace, name)) continue;
      this.#running.push(namespace);
      void this.#ask(name, answer, namespace);
    }
  }

  /** A name that fails waits for the next sweep. */
  async #ask(name: string, answer: NameAnswer, namespace: string): Promise<void> {
    const isKnown = () => this.#names.get(name) === answer;
    let changed = false;
    answer.asking = true;
    answer.isDue = false;
    try {
      const addresses = await this.#lookUp(name);
      this.#answeredAt = this.#deps.now();
      const line = this.#deps.plan.lineOf(name);
      const isGone = line?.target !== undefined && !this.#deps.locations.has(line.target);
      changed = isKnown() && answer.learn(addresses, this.#deciderOf(name), isGone ? SWEEPS : 1);
    } catch (error) {
      this.#deps.log.debug({ name }, `not looked up: ${describeError(error)}`);
    }
    answer.asking = false;
    if (isKnown() && (changed || !answer.tried)) this.#endWait(name, answer);
    await pause(REST_MS);
    this.#running.splice(this.#running.indexOf(namespace), 1);
    this.#lookUpDue();
  }

  /** Looks a name up, in both families. Throws if both fail. */
  async #lookUp(name: string): Promise<readonly string[]> {
    const settled = await Promise.allSettled(([4, 6] as const).map((each) => this.#deps.lookup(askedFor(name), each)));
    const answers = settled.map((one) => (one.status === "fulfilled" ? one.value : [FAILED]));
    if (answers.some(({ length }) => length >= MAX_ADDRESSES)) await pause(LARGE_REST_MS);
    if (settled.every((one) => one.status === "rejected")) throw settled[0]?.reason;
    return [...new Set(answers.flat().map(canonicalIp))].sort();
  }

  #deciderOf(name: string): Decide {
    const isOwnAddress = (address: string) => this.#isOwn(address);
    const held = this.#deps.plan.lineOf(name)?.target;
    return (claim, answers) => decideByDns(claim, { name, answers, held, isOwnAddress }, this.#deps.locations);
  }

  /** Whether an address is ours, or of another tool. Such an address does not show where the name leads without us. */
  #isOwn(address: string): boolean {
    const at = this.#deps.now();
    if (this.#own === undefined || at - this.#own.at >= OWN_MS)
      this.#own = { at, addresses: this.#deps.ownAddresses() };
    return this.#own.addresses.has(address) || this.#tools.has(address);
  }
}

/**
 * Takes the next name of a namespace for which `isFree` is true. That namespace gets its next turn after all others,
 * so a namespace with many names delays no other.
 */
function takeTurn(queue: Map<string, Set<string>>, isFree: (namespace: string) => boolean) {
  for (const [namespace, names] of queue) {
    if (!isFree(namespace)) continue;
    const [name] = names;
    queue.delete(namespace);
    if (name === undefined) continue;
    names.delete(name);
    if (names.size > 0) queue.set(namespace, names);
    return { namespace, name };
  }
  return undefined;
}
