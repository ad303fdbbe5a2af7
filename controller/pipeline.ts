import { isDeepStrictEqual } from "node:util";
import { parseHostname, show } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { steadyNow, timeSlices } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import type { DnsSweep } from "./dnscheck/sweep.ts";
import type { HeaderDecisions } from "./expected-headers/header-decisions.ts";
import type { ClaimBudget } from "./sources/claim-budget.ts";
import { textOfHints } from "./sources/claim-list.ts";
import type { Namespaces } from "./sources/namespaces.ts";
import type { RoutingHints, Source, SourceState, View } from "./sources/types.ts";
import type { Found } from "./targets/find-target.ts";
import type { Holding } from "./targets/match-service.ts";
import { SteadyTargets } from "./targets/steady-targets.ts";
import type { TargetLocations, TargetTable } from "./targets/target-table.ts";
import { type Witnesses, witness } from "./witness.ts";

interface PipelineDeps extends Omit<Witnesses, "headers" | "dns" | "locations"> {
  readonly sources: readonly Source[];
  /** The Services of the cluster. */
  readonly resolver: Pick<TargetTable, "start" | "state" | "stop">;
  /** Finds the target of routing hints. Equal arguments have equal answers between two changes of `resolver`. */
  readonly find: (hints: RoutingHints, holding: Holding) => Found;
  /** Their labels decide which routes a listener takes. */
  readonly namespaces: Pick<Namespaces, "start" | "state" | "stop">;
  readonly headers?: Pick<HeaderDecisions, "against" | "want" | "follow"> | undefined;
  readonly locations: TargetLocations;
  readonly dns?: DnsSweep | undefined;
  readonly budget?: Pick<ClaimBudget, "stop"> | undefined;
  /** The plan that the claims go to. */
  readonly plan: Pick<Plan, "set" | "heldTarget" | "lineOf">;
  readonly log: Logger;
}

interface Seen {
  readonly view: View;
  /** The parsed hostname. Undefined: it is invalid. */
  readonly name: string | undefined;
  /** The name, the object, and how many earlier views of the object have that name, as with a route of two Gateways. */
  readonly key: string;
}

/** What the hints of a view give to its claim. */
type Hinted = Found & Pick<Claim, "publicAddresses" | "chosen" | "ports">;

/** What one pass needs more than once. */
interface Memo {
  /** By namespace, held target and hints. */
  readonly found: Map<string, Hinted>;
  /** Each namespace with the targets that its names have. Few objects need it. */
  targets?: ReadonlySet<string>;
}

/** The views of an object, and the claims that were made of them. */
interface Viewed {
  /** Whether it has not changed since the first decision of this leader. */
  readonly isInherited: boolean;
  readonly seen: readonly Seen[];
  /** Undefined: they are not decided yet. */
  claims: readonly Claim[] | undefined;
}

/** How often it is checked whether the sources have been read, milliseconds. */
const POLL_MS = 50;
/** How long the claims of other sources wait for one that neither was read nor has failed, milliseconds. */
const READ_MS = 60_000;
const INTERNAL_ERROR: Reason = { code: "internal-error", text: "an internal error; the controller's log has it" };

/**
 * The first stages of a name, from the views of the sources to the claims of the plan:
 *
 *   view ──> findTarget ──> witness (header, DNS) ──> steady
 *
 * An object is decided again when it changes, when DNS says something else about one of its names, and, like all
 * objects, when Services or answers of ingress controllers change. `Loop` calls it, and does the rest.
 */
export class Pipeline {
  readonly #deps: PipelineDeps;
  /** By place of the source and key of the object, so that two kinds never share a key. */
  readonly #objects = new Map<string, Viewed>();
  readonly #byName = new Map<string, Set<string>>();
  readonly #due = new Set<string>();
  /** The objects to which several Services may lead. Other names of their namespaces may decide. */
  readonly #ambiguous = new Set<string>();
  /** Whether Services or answers of ingress controllers have changed. */
  #isAllDue = false;
  readonly #steady = new SteadyTargets();
  /** What has been logged. */
  readonly #failed = new LogThrottle();
  /** What has to be known before any claim is decided, and the sources that have not been read yet. */
  readonly #missing: Set<object>;
  readonly #unread: Set<Source>;
  #onDue: () => void = () => {};
  /** When the sources were started. */
  #startedAt: number | undefined;
  /** Whether all sources that can be read have been read. */
  #areRead = false;
  /** Whether everything has been decided since then. */
  #isRead = false;

  constructor(deps: PipelineDeps) {
    this.#deps = deps;
    this.#missing = new Set([deps.namespaces, deps.resolver]);
    this.#unread = new Set(deps.sources);
  }

  /** `onDue` is called when `decide` has something to do. */
  start(onDue: () => void): void {
    this.#onDue = onDue;
    const { namespaces, resolver, headers, dns } = this.#deps;
    headers?.follow(() => this.#decideAll());
    dns?.start((name) => this.#decideNames([name]));
    const isKnown = (part: object) => () => {
      this.#missing.delete(part);
      onDue();
    };
    resolver.start(() => this.#decideAll(), isKnown(resolver));
    namespaces.start(isKnown(namespaces));
  }

  /**
   * Decides what is due, once it is known what decides about all claims. The first call starts the sources. The plan
   * gets the claims of each object whose claims have changed. Resolves with the milliseconds until something else is
   * due. Undefined: nothing is.
   */
  async decide(): Promise<number | undefined> {
    if (this.#missing.size > 0) return undefined;
    if (this.#startedAt === undefined) this.#startSources();
    this.#areRead ||= this.#areSourcesRead();
    // An object of a source that is not read yet may be older, or have the name.
    if (!this.#areRead) return POLL_MS;
    this.#decideNames(this.#steady.takeDue(steadyNow()).map((key) => key.split(" ")[0] ?? ""));
    await this.#decideDue();
    this.#isRead = true;
    const next = this.#steady.nextDeadline();
    return next === undefined ? undefined : next - steadyNow();
  }

  /**
   * Call this when the plan or the published line of these names has changed. An object without evidence follows the
   * target of its name, and the other names of its namespace may choose between several Services.
   */
  settled(names: ReadonlySet<string>): void {
    this.#decideNames(names);
    if (names.size > 0) this.#decideObjects(this.#ambiguous);
  }

  /** Whether everything is decided with what can be read. Until the sources are read, nothing is decided. */
  get isRead(): boolean {
    return this.#isRead;
  }

  /** Whether every source has been read. Until then, a missing claim may still exist. */
  get synced(): boolean {
    return this.#missing.size + this.#unread.size === 0;
  }

  /** The states of what has been started. */
  state(): SourceState[] {
    const { namespaces, sources, resolver } = this.#deps;
    const started = this.#startedAt === undefined ? [] : sources;
    return [namespaces, ...started, resolver].flatMap((one) => one.state());
  }

  async stop(): Promise<void> {
    const { sources, resolver, namespaces, dns, budget } = this.#deps;
    dns?.stop();
    await Promise.all([budget, namespaces, resolver, ...sources].map((part) => part?.stop()));
  }

  /** It is known by now who has which name, and which routes a listener takes. */
  #startSources(): void {
    this.#startedAt = steadyNow();
    for (const [place, source] of this.#deps.sources.entries()) {
      const onRead = () => this.#unread.delete(source) && this.#onDue();
      source.start((key, views) => this.#see(`${place}/${key}`, views), onRead);
    }
  }

  /** Whether each source has been read or each of its unread kinds has failed once, or they took too long. */
  #areSourcesRead(): boolean {
    const haveFailed = [...this.#unread].every((one) => {
      const unread = one.state().filter(({ synced }) => !synced);
      return unread.length > 0 && unread.every(({ problems }) => problems.length > 0);
    });
    return haveFailed || steadyNow() - (this.#startedAt ?? 0) >= READ_MS;
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

  /** An object that cannot be decided affects only itself: its names stay as they are. */
  #decideSafely(object: string, memo: Memo): void {
    const viewed = this.#objects.get(object);
    const claims = (viewed?.seen ?? []).map((seen) => {
      const claim = this.#guarded(object, () => this.#decide(seen, memo, viewed?.isInherited === true));
      return claim ?? { ...seen.view, target: INTERNAL_ERROR, undecided: true as const };
    });
    this.#guarded(object, () => {
      if (!isDeepStrictEqual(viewed?.claims, claims)) this.#deps.plan.set(object, claims);
      if (viewed !== undefined) viewed.claims = claims;
    });
    if (claims.some(isAmbiguous)) this.#ambiguous.add(object);
    else this.#ambiguous.delete(object);
  }

  /** Each error is logged once, with the first object that it affects. */
  #guarded<T>(object: string, run: () => T): T | undefined {
    try {
      return run();
    } catch (error) {
      const reason = describeError(error);
      if (this.#failed.pass(reason) !== undefined)
        this.#deps.log.error({ code: "internal-error", object: show(object) }, reason);
      return undefined;
    }
  }

  /** The way of one name. */
  #decide({ name, key, view: { hints, ...view } }: Seen, memo: Memo, isInherited: boolean): Claim {
    const { namespace } = view.from;
    // The evidence of one namespace counts for its own names only.
    const held = name === undefined ? undefined : this.#deps.plan.heldTarget(name, namespace);
    const isOfNamespace = (target: string) => this.#targetsIn(memo).has(`${namespace} ${target}`);
    const question = `${namespace} ${held} ${textOfHints(hints)}`;
    const found = getOrAdd(memo.found, question, () => this.#find(hints, { held, isOfNamespace }));
    const claim: Claim = { ...view, ...found };
    if (name === undefined) return claim;
    const isShared = (this.#byName.get(name)?.size ?? 0) > 1;
    const subject = { name, key, namespace, isShared, held: claim.chosen || !isInherited ? undefined : held };
    return this.#steadied(witness(claim, subject, this.#deps), { name, key, held });
  }

  #find(hints: RoutingHints | Reason, holding: Holding): Hinted {
    if ("code" in hints) return { target: hints };
    const { addresses: publicAddresses, chosen, ports } = hints;
    const { find, headers } = this.#deps;
    const found = find(hints, holding);
    const target = typeof found.target === "string" ? found.target : found.maybe;
    if (target !== undefined && ports !== undefined) headers?.want(target, ports);
    return { ...found, publicAddresses, ...(chosen && { chosen: true }), ...(ports && { ports }) };
  }

  #targetsIn(memo: Memo): ReadonlySet<string> {
    const targetOf = ({ name, view: { from } }: Seen) =>
      `${from.namespace} ${name && this.#deps.plan.heldTarget(name, from.namespace)}`;
    memo.targets ??= new Set([...this.#objects.values()].flatMap(({ seen }) => seen.map(targetOf)));
    return memo.targets;
  }

  /** DNS may move a published name at any time, other evidence of an object only if it is steady. */
  #steadied(claim: Claim, { name, key, held }: { name: string; key: string; held: string | undefined }): Claim {
    const { target, verified } = claim;
    if (held === undefined || typeof target !== "string" || verified) return claim;
    if (this.#deps.plan.lineOf(name)?.target === undefined) return claim;
    const unsteady = this.#steady.check(key, held, target, steadyNow());
    return unsteady === undefined ? claim : { ...claim, target: unsteady, undecided: true, maybe: held, aim: target };
  }

  #see(object: string, views: readonly View[]): void {
    const before = this.#objects.get(object)?.seen ?? [];
    const seen = seenOf(object, views);
    const keys = new Set(seen.map(({ key }) => key));
    if (seen.length === 0) this.#objects.delete(object);
    else this.#objects.set(object, { seen, claims: undefined, isInherited: !this.#isRead });
    const names = new Set(seen.flatMap(({ name }) => name ?? []));
    for (const name of names) getOrAdd(this.#byName, name, () => new Set<string>()).add(object);
    for (const one of before) if (!keys.has(one.key)) this.#release(one, object, names);
    this.#decideObjects([object]);
  }

  /** The object has such a claim no longer. `names` are those that it has claims of. */
  #release({ name, key }: Seen, object: string, names: ReadonlySet<string>): void {
    this.#steady.forget(key);
    if (name === undefined) return;
    const { dns } = this.#deps;
    dns?.release(name, key);
    const objects = this.#byName.get(name);
    if (!names.has(name)) objects?.delete(object);
    if (objects?.size !== 0) return;
    this.#byName.delete(name);
    dns?.forget(name);
  }

  #decideNames(names: Iterable<string>): void {
    for (const name of names) this.#decideObjects(this.#byName.get(name) ?? []);
  }

  #decideObjects(objects: Iterable<string>): void {
    const before = this.#due.size;
    for (const object of objects) this.#due.add(object);
    if (this.#due.size > before) this.#onDue();
  }

  #decideAll(): void {
    this.#isAllDue = true;
    this.#onDue();
  }
}

function isAmbiguous({ target }: Claim): boolean {
  return typeof target !== "string" && target.code === "several-services";
}

function seenOf(object: string, views: readonly View[]): Seen[] {
  const counts = new Map<string | undefined, number>();
  return views.map((view) => {
    const name = nameOf(view);
    const earlier = counts.get(name) ?? 0;
    counts.set(name, earlier + 1);
    return { view, name, key: `${name} ${object} ${earlier}` };
  });
}

function nameOf({ hostname }: View): string | undefined {
  const parsed = parseHostname(hostname);
  return parsed.kind === "invalid" ? undefined : parsed.name;
}
