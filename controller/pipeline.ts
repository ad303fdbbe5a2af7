import { parseHostname, show } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { Claim } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { steadyNow, timeSlices } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { DnsSweep } from "./dnscheck/sweep.ts";
import { isAlike, Pass, textOf } from "./pass.ts";
import type { ClaimBudget } from "./sources/claim-budget.ts";
import type { ApiResource, ClaimSink, Prerequisite, Published, Source, SourceState, View } from "./sources/types.ts";
import type { FindDeps, Found, Holding } from "./targets/find-target.ts";
import type { TargetHeaders, TargetLocations, TargetResolver } from "./targets/resolver.ts";
import { SteadyTargets } from "./targets/steady-targets.ts";
import { type Witnesses, witness } from "./witness.ts";

interface PipelineDeps extends Omit<FindDeps, "headers">, Omit<Witnesses, "headers" | "dns" | "locations"> {
  readonly sources: readonly Source[];
  readonly resolver: TargetResolver;
  /** What has to be known, besides targets, before any claim is decided. */
  readonly prerequisites?: readonly Prerequisite[];
  /** Whether our own addresses are known. Default: there are none. */
  readonly isReady?: () => boolean;
  readonly headers?: TargetHeaders | undefined;
  readonly locations: TargetLocations;
  readonly dns?: DnsSweep | undefined;
  readonly budget?: ClaimBudget | undefined;
  /** It ends with the pipeline. */
  readonly names?: Pick<Prerequisite, "state" | "stop"> | undefined;
  /** The plan that the claims go to. It may be created later. */
  readonly plan: () => Pick<Plan, "heldTarget" | "lineOf" | "isWithinQuota">;
  readonly log: Logger;
}

/** A view, and what was known when its claim was decided. */
interface Seen {
  readonly view: View;
  /** The parsed hostname. Undefined: it is invalid. */
  readonly name: string | undefined;
  held?: string | undefined;
  found?: Found;
  facts?: string;
}

/** The views of an object, and the claims that were made of them. */
interface Viewed {
  readonly seen: readonly Seen[];
  /** Undefined: they are not decided yet. */
  claims: readonly Claim[] | undefined;
}

/** How often it is checked whether our own addresses are known, milliseconds. */
const POLL_MS = 10;

/**
 * The way of a name, from the views of the sources to the claims of the plan:
 *
 *   view ──> findTarget ──> witness (header, DNS) ──> steady ──> plan: policy, conflict and quota ──> publish
 *
 * An object is decided again when it changes, when DNS says something else about one of its names, and, like all
 * objects, when Services or answers of ingress controllers change. `Plan` and `MapReconciler` do the rest.
 */
export class Pipeline {
  readonly #deps: PipelineDeps;
  /** By place of the source and key of the object, so that two kinds never share a key. */
  readonly #objects = new Map<string, Viewed>();
  readonly #byName = new Map<string, Set<string>>();
  /** By namespace and hints: a name that was published when it was decided last. */
  readonly #publishedAlike = new Map<string, string>();
  readonly #due = new Set<string>();
  /** Whether Services or answers of ingress controllers have changed. */
  #isAllDue = false;
  /** The end of the next pass over all objects. */
  #passEnd: PromiseWithResolvers<void> | undefined;
  /** The last pass over all objects. */
  #last: Pass | undefined;
  readonly #steady = new SteadyTargets();
  readonly #waitingFor: Set<object>;
  readonly #reconciler = new Reconciler({ reconcile: () => this.#run() });
  #sink: ClaimSink = () => {};
  #onSynced: (() => void) | undefined;

  constructor(deps: PipelineDeps) {
    this.#deps = deps;
    this.#waitingFor = new Set([...deps.sources, deps.resolver, ...(deps.prerequisites ?? [])]);
  }

  /** `sink` receives the claims of each object whose claims have changed. `onSynced` is called once. */
  start(sink: ClaimSink, onSynced: () => void): void {
    this.#sink = sink;
    this.#onSynced = onSynced;
    const { sources, resolver, prerequisites = [], headers, dns } = this.#deps;
    const synced = (one: object) => () => {
      this.#waitingFor.delete(one);
      this.#reconciler.enqueue();
    };
    headers?.follow(() => void this.#allDecided());
    dns?.start(
      (name) => this.#decideObjects(this.#byName.get(name) ?? []),
      (name) => this.#namespaceOf(name),
    );
    resolver.start(() => this.#allDecided(), synced(resolver));
    for (const one of prerequisites) one.start(synced(one));
    for (const [place, source] of sources.entries())
      source.start((key, views) => this.#see(`${place}/${key}`, views), synced(source));
    this.#reconciler.enqueue();
  }

  state(): SourceState[] {
    const { prerequisites = [], names, sources, resolver } = this.#deps;
    return [...prerequisites, names, ...sources, resolver].flatMap((one) => one?.state() ?? []);
  }

  /** The resource of an object that was passed to the sink. Undefined: no API server has it. */
  resourceOf(object: string): ApiResource | undefined {
    const place = Number.parseInt(object, 10);
    return this.#deps.sources[place]?.resourceOf?.(object.slice(object.indexOf("/") + 1));
  }

  /** Called for a new leader: decides all objects with what is published, those with published names first. */
  async keep(published: Published): Promise<void> {
    const lines = [...published];
    this.#deps.budget?.keep(lines);
    this.#due.clear();
    for (const [name] of lines) for (const object of this.#byName.get(name) ?? []) this.#due.add(object);
    for (const object of this.#objects.keys()) this.#due.add(object);
    if (!this.#hasMissing()) await this.#decideDue();
  }

  /** Resolves when nothing is left to decide. */
  async idle(): Promise<void> {
    while (this.#due.size > 0 || this.#isAllDue || this.#onSynced !== undefined)
      await new Promise((done) => setTimeout(done, POLL_MS));
  }

  async stop(): Promise<void> {
    const { sources, resolver, prerequisites = [], names, dns, budget } = this.#deps;
    dns?.stop();
    this.#passEnd?.resolve();
    const parts = [this.#reconciler, budget, names, resolver, ...prerequisites, ...sources];
    await Promise.all(parts.map((part) => part?.stop()));
  }

  async #run() {
    if (this.#hasMissing()) return undefined;
    if (this.#deps.isReady?.() === false) return { requeueAfter: POLL_MS };
    for (const key of this.#steady.takeDue(steadyNow())) this.#due.add(key.slice(key.indexOf(" ") + 1));
    await this.#decideDue();
    if (this.#waitingFor.size === 0 && this.#due.size === 0 && !this.#isAllDue) {
      this.#onSynced?.();
      this.#onSynced = undefined;
    }
    const next = this.#steady.nextDeadline();
    return next === undefined ? undefined : { requeueAfter: next - steadyNow() };
  }

  /** Whether something is missing that decides about all claims. Other sources do not. */
  #hasMissing(): boolean {
    const { sources } = this.#deps;
    return [...this.#waitingFor].some((one) => !sources.includes(one as Source));
  }

  async #decideDue(): Promise<void> {
    const slice = timeSlices();
    const pass = new Pass(this.#deps, this.#last);
    const [isOfAll, passEnd] = [this.#isAllDue, this.#passEnd];
    this.#isAllDue = false;
    this.#passEnd = undefined;
    for (const object of this.#due) {
      this.#due.delete(object);
      this.#decideSafely(object, pass);
      await slice();
    }
    for (const [object, viewed] of isOfAll ? this.#objects : []) {
      if (!this.#isWithoutNews(viewed, pass)) this.#decideSafely(object, pass);
      await slice();
    }
    pass.end();
    if (!isOfAll) return;
    this.#last = pass;
    passEnd?.resolve();
  }

  /** An object that cannot be decided affects only itself: its earlier claims stay. */
  #decideSafely(object: string, pass: Pass): void {
    try {
      const viewed = this.#objects.get(object);
      const claims = (viewed?.seen ?? []).map((seen) => this.#decide(object, seen, pass));
      const isSame = viewed?.claims?.every((one, index) => isAlike(one, claims[index])) === true;
      if (viewed !== undefined) viewed.claims = claims;
      if (!isSame) this.#sink(object, claims);
    } catch (error) {
      this.#deps.log.error({ code: "object-failed", object: show(object) }, describeError(error));
    }
  }

  /** The way of one name. */
  #decide(object: string, seen: Seen, pass: Pass): Claim {
    const { name } = seen;
    const { hints, ...view } = seen.view;
    if ("code" in hints) return { ...view, target: hints };
    const { addresses, chosen, ports } = hints;
    const holding = this.#holdingOf(seen);
    const { held } = holding;
    const found = pass.find(hints, view.from.namespace, holding);
    const claim: Claim = {
      ...view,
      ...found,
      publicAddresses: addresses,
      ...(chosen !== undefined && { chosen: true }),
      ...(ports && { ports }),
    };
    const decided =
      name === undefined
        ? claim
        : this.#steadied(witness(claim, { name, object }, this.#deps), `${name} ${object}`, held);
    Object.assign(seen, { held, found, facts: pass.factsOf(aimOf(found), aimOf(decided)) });
    return decided;
  }

  /** Whether deciding an object again would change nothing. A Service may become the first target of what lacks one. */
  #isWithoutNews({ seen, claims }: Viewed, pass: Pass): boolean {
    return seen.every((one, index) => {
      const { view, found, held } = one;
      const claim = claims?.[index];
      if (claim === undefined || claim.lacking !== undefined) return false;
      if ("code" in view.hints) return true;
      const holding = this.#holdingOf(one);
      if (held !== holding.held || found !== pass.find(view.hints, view.from.namespace, holding)) return false;
      return one.facts === pass.factsOf(found && aimOf(found), aimOf(claim));
    });
  }

  /** The evidence of one namespace counts for its own names only. */
  #holdingOf({ name, view }: Seen): Holding {
    const { namespace } = view.from;
    const heldBy = (one: string | undefined) => one && this.#deps.plan().heldTarget(one, namespace);
    const held = heldBy(name);
    if (held !== undefined && name !== undefined) this.#publishedAlike.set(keyOf({ view }), name);
    return { held, likely: held ?? heldBy(this.#publishedAlike.get(keyOf({ view }))) };
  }

  /**
   * DNS may move a published name at any time, other evidence of an object only if it is steady. `key` is the name and
   * the object.
   */
  #steadied(claim: Claim, key: string, held: string | undefined): Claim {
    const { target, verified } = claim;
    if (held === undefined || typeof target !== "string" || verified) return claim;
    if (this.#deps.plan().lineOf(key.slice(0, key.indexOf(" ")))?.target === undefined) return claim;
    const unsteady = this.#steady.check(key, held, target, steadyNow());
    if (unsteady === undefined) return claim;
    this.#reconciler.enqueue();
    return { ...claim, target: unsteady, undecided: true, maybe: held };
  }

  #see(object: string, views: readonly View[]): void {
    const former = this.#objects.get(object)?.seen ?? [];
    for (const one of former)
      if (this.#publishedAlike.get(keyOf(one)) === one.name) this.#publishedAlike.delete(keyOf(one));
    const before = namesOf(former);
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
    this.#reconciler.enqueue();
  }

  /** Decides all objects again. Resolves when that is done, or if nothing can be decided yet. */
  async #allDecided(): Promise<void> {
    this.#isAllDue = true;
    this.#reconciler.enqueue();
    if (this.#hasMissing() || this.#deps.isReady?.() === false) return;
    this.#passEnd ??= Promise.withResolvers();
    await this.#passEnd.promise;
  }

  /** The first namespace that claims the name and whose quota has room for it. */
  #namespaceOf(name: string): string | undefined {
    for (const object of this.#byName.get(name) ?? []) {
      const namespace = this.#objects.get(object)?.seen[0]?.view.from.namespace;
      if (namespace !== undefined && this.#deps.plan().isWithinQuota(namespace, name)) return namespace;
    }
    return undefined;
  }
}

/** Equal for views of a namespace with equal hints. */
function keyOf({ view: { from, hints } }: Pick<Seen, "view">): string {
  return `${from.namespace} ${textOf(hints)}`;
}

function namesOf(seen: readonly Seen[]): Set<string> {
  return new Set(seen.flatMap(({ name }) => name ?? []));
}

function nameOf({ hostname }: View): string | undefined {
  const parsed = parseHostname(hostname);
  return parsed.kind === "invalid" ? undefined : parsed.name;
}

/** The target that a claim has or may get. */
function aimOf({ target, maybe }: Found): string | undefined {
  return typeof target === "string" ? target : maybe;
}
