import { parseHostname, show } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { steadyNow, timeSlices } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { DnsSweep } from "./dnscheck/sweep.ts";
import type { ClaimBudget } from "./sources/claim-budget.ts";
import type { ApiResource, ClaimSink, Prerequisite, Published, Source, SourceState, View } from "./sources/types.ts";
import { type FindDeps, type Found, findTarget } from "./targets/find-target.ts";
import type { TargetHeaders, TargetResolver } from "./targets/resolver.ts";
import { SteadyTargets } from "./targets/steady-targets.ts";
import { type Witnesses, witness } from "./witness.ts";

interface PipelineDeps extends Omit<FindDeps, "headers">, Omit<Witnesses, "headers" | "dns"> {
  readonly sources: readonly Source[];
  readonly resolver: TargetResolver;
  /** What has to be known, besides targets, before any claim is decided. */
  readonly prerequisites?: readonly Prerequisite[];
  /** Whether our own addresses are known. Default: there are none. */
  readonly isReady?: () => boolean;
  readonly headers?: TargetHeaders | undefined;
  readonly dns?: DnsSweep | undefined;
  readonly budget?: ClaimBudget | undefined;
  /** The plan that the claims go to. It may be created later. */
  readonly plan: () => Pick<Plan, "heldTarget" | "lineOf" | "isWithinQuota">;
  readonly log: Logger;
}

/** The views of an object, and the claims that were made of them. */
interface Viewed {
  readonly views: ReadonlyArray<View & { readonly name: string | undefined }>;
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
  readonly #due = new Set<string>();
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
    headers?.follow(() => this.#decideAll());
    dns?.start(
      (name) => this.#decideObjects(this.#byName.get(name) ?? []),
      (name) => this.#namespaceOf(name),
    );
    resolver.start(() => this.#decideAll(), synced(resolver));
    for (const one of prerequisites) one.start(synced(one));
    for (const [place, source] of sources.entries())
      source.start((key, views) => this.#see(`${place}/${key}`, views), synced(source));
    this.#reconciler.enqueue();
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

  /** Called for a new leader: decides all objects with what is published, those with published names first. */
  async keep(published: Published): Promise<void> {
    const lines = [...published];
    this.#deps.budget?.keep(lines);
    this.#due.clear();
    for (const [name] of lines) for (const object of this.#byName.get(name) ?? []) this.#due.add(object);
    for (const object of this.#objects.keys()) this.#due.add(object);
    await this.#decideDue();
  }

  /** Resolves when nothing is left to decide. */
  async idle(): Promise<void> {
    while (this.#due.size > 0 || this.#onSynced !== undefined) await new Promise((done) => setTimeout(done, POLL_MS));
  }

  async stop(): Promise<void> {
    const { sources, resolver, prerequisites = [], dns, budget } = this.#deps;
    dns?.stop();
    const parts = [this.#reconciler, budget, resolver, ...prerequisites, ...sources];
    await Promise.all(parts.map((part) => part?.stop()));
  }

  async #run() {
    if (this.#waitingFor.size > 0 && this.#hasMissing()) return undefined;
    if (this.#deps.isReady?.() === false) return { requeueAfter: POLL_MS };
    for (const name of this.#steady.takeDue(steadyNow())) this.#decideObjects(this.#byName.get(name) ?? []);
    await this.#decideDue();
    if (this.#waitingFor.size === 0 && this.#due.size === 0) {
      this.#deps.dns?.endStart();
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
    const find = this.#finder();
    for (const object of this.#due) {
      this.#due.delete(object);
      // An object that cannot be decided affects only itself: its earlier claims stay.
      try {
        this.#decideObject(object, find);
      } catch (error) {
        this.#deps.log.error({ code: "object-failed", object: show(object) }, describeError(error));
      }
      await slice();
    }
  }

  #decideObject(object: string, find: Find): void {
    const viewed = this.#objects.get(object);
    const claims = (viewed?.views ?? []).map((view) => this.#decide(view, find));
    const isSame = viewed?.claims?.every((one, index) => isAlike(one, claims[index])) === true;
    if (viewed !== undefined) viewed.claims = claims;
    if (!isSame) this.#sink(object, claims);
  }

  /** The way of one name. */
  #decide({ hints, name, ...view }: Viewed["views"][number], find: Find): Claim {
    if ("code" in hints) return { ...view, target: hints };
    const { addresses, chosen, ports } = hints;
    const held = name === undefined ? undefined : this.#deps.plan().heldTarget(name, view.from.namespace);
    const claim: Claim = {
      ...view,
      ...find(hints, view.from.namespace, held),
      publicAddresses: addresses,
      ...(chosen !== undefined && { chosen: true }),
      ...(ports && { ports }),
    };
    if (name === undefined) return claim;
    return this.#steadied(witness(claim, name, this.#deps), name, held);
  }

  /** DNS may move a published name at any time, other evidence only if it is steady. */
  #steadied(claim: Claim, name: string, held: string | undefined): Claim {
    const { target, verified } = claim;
    const isPublished = held !== undefined && this.#deps.plan().lineOf(name)?.target !== undefined;
    if (!isPublished || typeof target !== "string" || verified) return claim;
    const unsteady = this.#steady.check(name, held, target, steadyNow());
    if (unsteady === undefined) return claim;
    this.#reconciler.enqueue();
    return { ...claim, target: unsteady, undecided: true, maybe: held };
  }

  /** Equal hints of a namespace are resolved once in each pass. */
  #finder(): Find {
    const memo = new Map<string, Found>();
    return (hints, namespace, held) =>
      getOrAdd(memo, `${namespace} ${held} ${textOf(hints)}`, () => findTarget(hints, held, this.#deps));
  }

  #see(object: string, views: readonly View[]): void {
    const before = this.#objects.get(object)?.views ?? [];
    const after = views.map((view) => ({ ...view, name: nameOf(view) }));
    if (after.length === 0) this.#objects.delete(object);
    else this.#objects.set(object, { views: after, claims: undefined });
    const names = new Set(after.map(({ name }) => name));
    for (const name of names) if (name !== undefined) getOrAdd(this.#byName, name, () => new Set<string>()).add(object);
    for (const { name } of before) {
      const objects = name === undefined || names.has(name) ? undefined : this.#byName.get(name);
      objects?.delete(object);
      if (name === undefined || objects?.size !== 0) continue;
      this.#byName.delete(name);
      this.#deps.dns?.forget(name);
    }
    this.#decideObjects([object]);
  }

  #decideObjects(objects: Iterable<string>): void {
    for (const object of objects) this.#due.add(object);
    this.#reconciler.enqueue();
  }

  #decideAll(): void {
    this.#decideObjects(this.#objects.keys());
  }

  /** The first namespace that claims the name and whose quota has room for it. */
  #namespaceOf(name: string): string | undefined {
    for (const object of this.#byName.get(name) ?? []) {
      const namespace = this.#objects.get(object)?.views[0]?.from.namespace;
      if (namespace !== undefined && this.#deps.plan().isWithinQuota(namespace, name)) return namespace;
    }
    return undefined;
  }
}

type Find = (hints: Exclude<View["hints"], Reason>, namespace: string, held: string | undefined) => Found;

const TEXTS = new WeakMap<object, string>();

/** A text that is equal for equal hints. */
function textOf(hints: object): string {
  const text = TEXTS.get(hints) ?? JSON.stringify(hints);
  TEXTS.set(hints, text);
  return text;
}

function nameOf({ hostname }: View): string | undefined {
  const parsed = parseHostname(hostname);
  return parsed.kind === "invalid" ? undefined : parsed.name;
}

/** Whether two claims that were made of the same view are alike. */
function isAlike(one: Claim, other: Claim | undefined): boolean {
  const isSame = one.undecided === other?.undecided && one.maybe === other?.maybe && one.verified === other?.verified;
  if (!isSame || one.lacking?.byClass !== other?.lacking?.byClass) return false;
  return reasonText(one.target) === reasonText(other?.target) && reasonText(one.warning) === reasonText(other?.warning);
}

function reasonText(value: string | Reason | undefined): string | undefined {
  return typeof value === "object" ? `${value.code} ${value.text}` : value;
}
