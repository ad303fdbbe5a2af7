import { parseHostname, show } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { steadyNow, timeSlices } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { DnsSweep } from "./dnscheck/sweep.ts";
import type { ClaimBudget } from "./sources/claim-budget.ts";
import { textOfHints } from "./sources/claim-list.ts";
import type {
  ApiResource,
  ClaimSink,
  ClaimSource,
  Prerequisite,
  Published,
  RoutingHints,
  Source,
  SourceState,
  View,
} from "./sources/types.ts";
import type { Found } from "./targets/find-target.ts";
import type { Holding } from "./targets/match-service.ts";
import type { TargetHeaders, TargetLocations, TargetResolver } from "./targets/resolver.ts";
import { SteadyTargets } from "./targets/steady-targets.ts";
import { type Witnesses, witness } from "./witness.ts";

interface PipelineDeps extends Omit<Witnesses, "headers" | "dns" | "locations"> {
  readonly sources: readonly Source[];
  readonly resolver: TargetResolver;
  /** What has to be known, besides targets, before any claim is decided. */
  readonly prerequisites?: readonly Prerequisite[];
  readonly headers?: TargetHeaders | undefined;
  readonly locations: TargetLocations;
  readonly dns?: DnsSweep | undefined;
  readonly budget?: ClaimBudget | undefined;
  /** It ends with the pipeline. */
  readonly names?: Pick<Prerequisite, "stop"> | undefined;
  /** The plan that the claims go to. */
  readonly plan: Pick<Plan, "heldTarget" | "lineOf" | "isWithinQuota">;
  readonly log: Logger;
}

interface Seen {
  readonly view: View;
  /** The parsed hostname. Undefined: it is invalid. */
  readonly name: string | undefined;
}

/** What one pass needs more than once. */
interface Memo {
  /** By namespace, held target and hints. */
  readonly found: Map<string, Found>;
  /** Each namespace with the targets that its names have. Few objects need it. */
  targets?: ReadonlySet<string>;
}

/** The views of an object, and the claims that were made of them. */
interface Viewed {
  readonly seen: readonly Seen[];
  /** Undefined: they are not decided yet. */
  claims: readonly Claim[] | undefined;
}

/** How often it is checked whether the sources have been read, milliseconds. */
const POLL_MS = 50;
/** How long the claims of other sources wait for one that neither was read nor has failed, milliseconds. */
const READ_MS = 60_000;
const NOT_READ: Reason = {
  code: "sources-not-read",
  text: "waits until every source has been read once or has failed, at most a minute after the start",
};

/**
 * The first stages of a name, from the views of the sources to the claims of the plan:
 *
 *   view ──> findTarget ──> witness (header, DNS) ──> steady
 *
 * An object is decided again when it changes, when DNS says something else about one of its names, and, like all
 * objects, when Services or answers of ingress controllers change. `Loop` calls it, and does the rest.
 */
export class Pipeline implements ClaimSource {
  readonly #deps: PipelineDeps;
  /** By place of the source and key of the object, so that two kinds never share a key. */
  readonly #objects = new Map<string, Viewed>();
  readonly #byName = new Map<string, Set<string>>();
  readonly #due = new Set<string>();
  /** Whether Services or answers of ingress controllers have changed. */
  #isAllDue = false;
  readonly #steady = new SteadyTargets();
  readonly #waitingFor: Set<object>;
  #sink: ClaimSink = () => {};
  #onDue: () => void = () => {};
  #startedAt = 0;
  /** Whether all sources that can be read have been read. */
  #areRead = false;
  /** Whether everything has been decided since then. */
  #isRead = false;

  constructor(deps: PipelineDeps) {
    this.#deps = deps;
    this.#waitingFor = new Set([...deps.sources, deps.resolver, ...(deps.prerequisites ?? [])]);
  }

  start(sink: ClaimSink, onDue: () => void): void {
    this.#sink = sink;
    this.#onDue = onDue;
    this.#startedAt = steadyNow();
    const { sources, resolver, prerequisites = [], headers, dns } = this.#deps;
    const synced = (one: object) => () => {
      this.#waitingFor.delete(one);
      onDue();
    };
    headers?.follow(() => this.#decideAll());
    dns?.start(
      (name) => this.#decideObjects(this.#byName.get(name) ?? []),
      (name) => this.#namespaceOf(name),
    );
    resolver.start(() => this.#decideAll(), synced(resolver));
    for (const one of prerequisites) one.start(synced(one));
    for (const [place, source] of sources.entries())
      source.start((key, views) => this.#see(`${place}/${key}`, views), synced(source));
  }

  /** Decides what is due, once it is known what decides about all claims. */
  async decide(): Promise<number | undefined> {
    if (this.#hasMissing()) return undefined;
    if (!this.#areRead && this.#areSourcesRead()) {
      this.#areRead = true;
      this.#isAllDue = true;
    }
    for (const key of this.#steady.takeDue(steadyNow())) this.#due.add(key.slice(key.indexOf(" ") + 1));
    await this.#decideDue();
    if (!this.#areRead) return POLL_MS;
    if (this.#due.size === 0 && !this.#isAllDue) this.#isRead = true;
    const next = this.#steady.nextDeadline();
    return next === undefined ? undefined : next - steadyNow();
  }

  /** An object without evidence keeps the target of its name, whichever object of the namespace had the evidence. */
  planned(names: Iterable<string>): void {
    for (const name of names) {
      const objects = this.#byName.get(name);
      if (objects !== undefined && objects.size > 1) this.#decideObjects(objects);
    }
  }

  get isRead(): boolean {
    return this.#isRead;
  }

  get synced(): boolean {
    return this.#waitingFor.size === 0;
  }

  state(): SourceState[] {
    const { prerequisites = [], sources, resolver } = this.#deps;
    return [...prerequisites, ...sources, resolver].flatMap((one) => one.state());
  }

  /** The resource of an object that was passed to the sink. Undefined: no API server has it. */
  resourceOf(object: string): ApiResource | undefined {
    const place = Number.parseInt(object, 10);
    return this.#deps.sources[place]?.resourceOf?.(object.slice(object.indexOf("/") + 1));
  }

  keep(published: Published): void {
    this.#deps.budget?.keep(published);
  }

  async stop(): Promise<void> {
    const { sources, resolver, prerequisites = [], names, dns, budget } = this.#deps;
    dns?.stop();
    await Promise.all([budget, names, resolver, ...prerequisites, ...sources].map((part) => part?.stop()));
  }

  /** Whether something is missing that decides about all claims. Other sources do not. */
  #hasMissing(): boolean {
    const { sources } = this.#deps;
    return [...this.#waitingFor].some((one) => !sources.includes(one as Source));
  }

  /** Whether each source has been read or has failed once, or took too long. */
  #areSourcesRead(): boolean {
    const waiting = this.#deps.sources.filter((one) => this.#waitingFor.has(one));
    const haveFailed = waiting.every((one) =>
      one.state().some(({ synced, problems }) => !synced && problems.length > 0),
    );
    return haveFailed || steadyNow() - this.#startedAt >= READ_MS;
  }

  async #decideDue(): Promise<void> {
    const slice = timeSlices();
    const memo: Memo = { found: new Map() };
    if (this.#isAllDue) for (const object of this.#objects.keys()) this.#due.add(object);
    this.#isAllDue = false;
    for (const object of this.#due) {
      this.#due.delete(object);
      this.#decideSafely(object, memo);
      await slice();
    }
  }

  /** An object that cannot be decided affects only itself: its earlier claims stay. */
  #decideSafely(object: string, memo: Memo): void {
    try {
      const viewed = this.#objects.get(object);
      const claims = (viewed?.seen ?? []).map((seen) => this.#decide(object, seen, memo));
      const isSame = viewed?.claims?.every((one, index) => isAlike(one, claims[index])) === true;
      if (viewed !== undefined) viewed.claims = claims;
      if (!isSame) this.#sink(object, claims);
    } catch (error) {
      this.#deps.log.error({ code: "object-failed", object: show(object) }, describeError(error));
    }
  }

  /** The way of one name. */
  #decide(object: string, seen: Seen, memo: Memo): Claim {
    const { name } = seen;
    const { hints, ...view } = seen.view;
    if ("code" in hints) return { ...view, target: hints };
    const { addresses, chosen, ports } = hints;
    const { namespace } = view.from;
    // The evidence of one namespace counts for its own names only.
    const held = name === undefined ? undefined : this.#deps.plan.heldTarget(name, namespace);
    // An object of a source that is not read yet may be older, or have the name.
    if (!this.#areRead)
      return { ...view, target: NOT_READ, undecided: true, ...(held !== undefined && { maybe: held }) };
    const isOfNamespace = (target: string) => this.#targetsIn(memo).has(`${namespace} ${target}`);
    const key = `${namespace} ${held} ${textOfHints(hints)}`;
    const found = getOrAdd(memo.found, key, () => this.#find(hints, { held, isOfNamespace }));
    const claim: Claim = {
      ...view,
      ...found,
      publicAddresses: addresses,
      ...(chosen !== undefined && { chosen: true }),
      ...(ports && { ports }),
    };
    if (name === undefined) return claim;
    return this.#steadied(witness(claim, { name, object }, this.#deps), `${name} ${object}`, held);
  }

  /** An error affects only objects with these hints. */
  #find(hints: RoutingHints, holding: Holding): Found {
    const { resolver, headers } = this.#deps;
    try {
      const found = resolver.find(hints, holding);
      const target = typeof found.target === "string" ? found.target : found.maybe;
      if (target !== undefined && hints.ports !== undefined) headers?.want(target, hints.ports);
      return found;
    } catch (error) {
      const target = { code: "object-failed", text: `its target could not be found: ${describeError(error)}` };
      return holding.held === undefined ? { target } : { target, undecided: true, maybe: holding.held };
    }
  }

  #targetsIn(memo: Memo): ReadonlySet<string> {
    const targetOf = ({ name, view: { from } }: Seen) =>
      `${from.namespace} ${name && this.#deps.plan.heldTarget(name, from.namespace)}`;
    memo.targets ??= new Set([...this.#objects.values()].flatMap(({ seen }) => seen.map(targetOf)));
    return memo.targets;
  }

  /**
   * DNS may move a published name at any time, other evidence of an object only if it is steady. `key` is the name and
   * the object.
   */
  #steadied(claim: Claim, key: string, held: string | undefined): Claim {
    const { target, verified } = claim;
    if (held === undefined || typeof target !== "string" || verified) return claim;
    if (this.#deps.plan.lineOf(key.slice(0, key.indexOf(" ")))?.target === undefined) return claim;
    const unsteady = this.#steady.check(key, held, target, steadyNow());
    if (unsteady === undefined) return claim;
    this.#onDue();
    return { ...claim, target: unsteady, undecided: true, maybe: held };
  }

  #see(object: string, views: readonly View[]): void {
    const before = namesOf(this.#objects.get(object)?.seen ?? []);
    const seen = views.map((view) => ({ view, name: nameOf(view) }));
    const after = namesOf(seen);
    if (seen.length === 0) this.#objects.delete(object);
    else this.#objects.set(object, { seen, claims: undefined });
    for (const name of after) getOrAdd(this.#byName, name, () => new Set<string>()).add(object);
    for (const name of before.difference(after)) this.#release(name, object);
    this.#decideObjects([object]);
  }

  #release(name: string, object: string): void {
    const { dns } = this.#deps;
    dns?.release(name, object);
    const objects = this.#byName.get(name);
    objects?.delete(object);
    if (objects?.size !== 0) return;
    this.#byName.delete(name);
    dns?.forget(name);
  }

  #decideObjects(objects: Iterable<string>): void {
    for (const object of objects) this.#due.add(object);
    this.#onDue();
  }

  #decideAll(): void {
    this.#isAllDue = true;
    this.#onDue();
  }

  /** The first namespace that claims the name and whose quota has room for it. */
  #namespaceOf(name: string): string | undefined {
    for (const object of this.#byName.get(name) ?? []) {
      const namespace = this.#objects.get(object)?.seen[0]?.view.from.namespace;
      if (namespace !== undefined && this.#deps.plan.isWithinQuota(namespace, name)) return namespace;
    }
    return undefined;
  }
}

function namesOf(seen: readonly Seen[]): Set<string> {
  return new Set(seen.flatMap(({ name }) => name ?? []));
}

function nameOf({ hostname }: View): string | undefined {
  const parsed = parseHostname(hostname);
  return parsed.kind === "invalid" ? undefined : parsed.name;
}

/** Whether what was decided about two claims of one view is the same. */
function isAlike(one: Claim, other: Claim | undefined): boolean {
  const isSame = one.undecided === other?.undecided && one.maybe === other?.maybe && one.verified === other?.verified;
  const isLacking = (claim: Claim | undefined) => claim?.lacking && JSON.stringify(claim.lacking);
  if (!isSame || isLacking(one) !== isLacking(other)) return false;
  return reasonText(one.target) === reasonText(other?.target) && reasonText(one.warning) === reasonText(other?.warning);
}

function reasonText(value: string | Reason | undefined): string | undefined {
  return typeof value === "object" ? `${value.code} ${value.text}` : value;
}
