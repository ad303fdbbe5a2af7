import { isDeepStrictEqual } from "node:util";
import { show } from "#hostmap/hostnames.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Reason } from "#hostmap/types.ts";
import { describeError, ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { readerOf } from "#lib/kube/shapes.ts";
import { timeSlices } from "#lib/kube/time.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { type ClaimBudget, type Entry, NOTHING } from "./claim-budget.ts";
import type { ObjectOrigin, Raw } from "./raw-object.ts";
import { informerState, type Source, type SourceState, type View, type ViewSink } from "./types.ts";

/** The fields that are kept of any object. */
export type Kept = Pick<ObjectOrigin, "ref" | "created">;

/** A kind that a source reads. V is what is kept of an object. */
export interface Kind<V extends Kept = Kept> {
  /** Precedes the object's key, `namespace/name`, in calls of the sink. Each kind of a source has another one. */
  readonly prefix: string;
  /** Empty for the core group. */
  readonly group: string;
  /** The plural name: `httproutes`. */
  readonly resource: string;
  /** The supported versions, the preferred first. */
  readonly versions: readonly string[];
  /** The API's name of the kind, if every cluster serves the first version. Otherwise the kind is discovered. */
  readonly builtIn?: string;
  /** Whether the configuration names the resource. Then a group without the resource is a problem. */
  readonly named?: true;
  /** Whether an object decides about the claims of others. */
  readonly isShared?: true;
  /**
   * Projects an object; `kind` is the API's name of the kind. Must copy the values that it keeps. Undefined: the object
   * is ignored.
   */
  project(raw: Raw, kind: string): V | undefined;
  /**
   * Returns what is kept with only those names for which `keeps` is true, and asks once for each name. Without it, the
   * kind has no names, and everything is kept.
   */
  pick?(view: V, keeps: (name: string) => boolean): V;
}

/** The names of a kind, with its usual plural: `Ingress` is `ingresses`. `versions`: the preferred first. */
export function namesOf(kind: string, group: string, versions: readonly string[] = ["v1"]) {
  return { prefix: `${kind} `, group, versions, resource: `${kind.toLowerCase()}${kind.endsWith("s") ? "es" : "s"}` };
}

export interface SourceDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly budget: ClaimBudget;
  readonly log: Logger;
}

/** Returns the claims of an object, given as prefix and key: `HTTPRoute shop/web`. */
export type ClaimsOf<V> = (view: V, object: string) => readonly View[];

interface Rules<V extends Kept> {
  readonly kinds: readonly Kind<V>[];
  /** Prepares the evaluation of objects: `objects` has what is kept of all of them. */
  prepare(objects: ReadonlyMap<string, V>): ClaimsOf<V>;
}

/** A kind, as it is followed. It may be installed, removed and installed again at any time. Unknown is not missing. */
interface Followed<V extends Kept> {
  readonly wanted: Kind<V>;
  informer: Informer<V> | undefined;
  /** Why the kind cannot be read as it is wanted. */
  problem: Reason | undefined;
  /** Whether all its objects were reported, or it has none because the cluster does not serve it. */
  isKnown: boolean;
  /** Reads the objects again. */
  relist(): void;
}

/** Minimum time between two evaluations of all objects, milliseconds. */
const PAUSE_MS = 100;
/** How often the controller looks for kinds that the cluster does not serve yet, milliseconds. */
const DISCOVERY_MS = 15_000;
/** Delay after a failed discovery request, milliseconds. */
const RETRY_MS = 2_000;

/**
 * Reads objects of some kinds, and turns them into claims. An object that changes is evaluated at once. After a change
 * of a shared object, all of them are evaluated, at most every 100 ms and in slices. Only objects with other claims
 * than before are reported.
 */
export class KindsSource<V extends Kept> implements Source {
  readonly #deps: SourceDeps;
  readonly #rules: Rules<V>;
  readonly #kinds: readonly Followed<V>[];
  /** What is kept, counted and reported of each object, by prefix and key. Objects without names are not counted. */
  readonly #objects = new Map<string, V>();
  readonly #entries = new Map<string, Entry>();
  readonly #reported = new Map<string, readonly View[]>();
  /** What has been logged. */
  readonly #failed = new LogThrottle();
  readonly #discovery: Reconciler;
  readonly #evaluation: Reconciler;
  readonly #stopped = new AbortController();
  /** Undefined: all objects are evaluated soon. */
  #claimsOf: ClaimsOf<V> | undefined;
  #sink: ViewSink = () => {};
  #onSynced: (() => void) | undefined;

  constructor(deps: SourceDeps, rules: Rules<V>) {
    this.#deps = deps;
    this.#rules = rules;
    this.#kinds = rules.kinds.map((wanted) => {
      const relist = () => kind.informer?.relist();
      const kind: Followed<V> = { wanted, informer: undefined, problem: undefined, isKnown: false, relist };
      return kind;
    });
    this.#discovery = new Reconciler({ reconcile: () => this.#discover() });
    this.#evaluation = new Reconciler({ reconcile: () => this.#evaluateAll(), pauseMs: () => PAUSE_MS });
  }

  start(sink: ViewSink, onSynced: () => void): void {
    this.#sink = sink;
    this.#onSynced = onSynced;
    this.#discovery.enqueue();
  }

  /** Call this if something else has changed that decides about all claims. */
  changed(): void {
    this.#claimsOf = undefined;
    if (this.#kinds.every(({ wanted, isKnown }) => isKnown || !wanted.isShared)) this.#evaluation.enqueue();
  }

  state(): SourceState[] {
    return this.#kinds.map(({ wanted: { resource, group, builtIn }, informer, problem, isKnown }) => {
      const name = builtIn === undefined ? `${resource}.${group}` : resource;
      const state = informerState(name, informer);
      return { ...state, synced: isKnown, problems: problem ? [{ place: name, ...problem }] : state.problems };
    });
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    const watches = this.#kinds.map(({ informer }) => informer);
    await Promise.all([this.#discovery, this.#evaluation, ...watches].map((part) => part?.stop()));
  }

  async #discover() {
    const found = await Promise.all(this.#kinds.map((kind) => this.#find(kind)));
    return { requeueAfter: found.includes(false) ? RETRY_MS : DISCOVERY_MS };
  }

  /** Looks for a kind, unless it is being watched. That needs no right. Returns false if a request failed. */
  async #find(kind: Followed<V>): Promise<boolean> {
    if (kind.informer !== undefined && kind.informer.state.problem?.code !== "not-found") {
      // Its watch works, perhaps again.
      kind.problem = undefined;
      return true;
    }
    const { signal } = this.#stopped;
    try {
      const found = await servedAs(kind.wanted, this.#deps, signal);
      if (signal.aborted) return true;
      kind.problem = found !== undefined && "code" in found ? found : undefined;
      if (found !== undefined && "version" in found) this.#watch(kind, found.version, found.name);
      else this.#missing(kind);
      return true;
    } catch (error) {
      kind.problem = { code: "discovery-failed", text: describeError(error) };
      return false;
    }
  }

  /** An API server that restarts may not serve a kind for a while. If its definition is removed, it has no objects. */
  #missing(kind: Followed<V>): void {
    const { length } = this.#objectsOf(kind);
    if (length > 0) {
      kind.problem = { code: "kind-removed", text: `no longer served; its ${length} last known objects are kept` };
      return;
    }
    void kind.informer?.stop();
    kind.informer = undefined;
    this.#becomesKnown(kind);
  }

  #watch(kind: Followed<V>, version: string, name: string): void {
    const { client, log } = this.#deps;
    const { group, resource, prefix } = kind.wanted;
    void kind.informer?.stop();
    const apiVersion = group === "" ? version : `${group}/${version}`;
    const informer: Informer<V> = watchObjects<V, Raw>({
      client,
      path: resourcePath({ group, version, resource }),
      // The objects of a list lack it.
      project: (raw) => this.#enter(kind, { ...raw, apiVersion }, name),
      isPartial: (key) => this.#entries.get(prefix + key)?.leftOut !== undefined,
      onChange: ({ key, after }) => this.#change(kind.wanted, prefix + key, after),
      onSynced: () => {
        // An earlier watch had reported this object.
        for (const object of this.#objectsOf(kind))
          if (!informer.objects().has(object.slice(prefix.length))) this.#change(kind.wanted, object, undefined);
        this.#becomesKnown(kind);
      },
      log,
    });
    kind.informer = informer;
  }

  #objectsOf({ wanted }: Followed<V>): string[] {
    return [...this.#objects.keys()].filter((object) => object.startsWith(wanted.prefix));
  }

  #becomesKnown(kind: Followed<V>): void {
    if (kind.isKnown) return;
    kind.isKnown = true;
    this.changed();
  }

  /** Returns what is kept of an object that is new or has changed. Undefined: nothing. */
  #enter(kind: Followed<V>, raw: Raw, name: string): V | undefined {
    const { prefix, project, pick } = kind.wanted;
    const view = project(raw, name);
    if (view === undefined || pick === undefined) return view;
    const { budget } = this.#deps;
    const { ref: from } = view;
    const object = prefix + (from.namespace === "" ? from.name : `${from.namespace}/${from.name}`);
    const entry = getOrAdd(this.#entries, object, (): Entry => ({ object, from, kind, own: NOTHING, ...NOTHING }));
    budget.keep(entry, NOTHING);
    const kept = pick(view, (hostname) => budget.takes(entry, hostname));
    // An object without names takes room, too.
    if (entry.used === 0 && entry.leftOut === undefined) budget.takes(entry, "");
    entry.own = { used: entry.used, leftOut: entry.leftOut };
    if (entry.used > 0 || budget.reportOf(entry) !== undefined) return kept;
    this.#entries.delete(object);
    return undefined;
  }

  #change(kind: Kind<V>, object: string, view: V | undefined): void {
    // A Gateway's status counts its routes, so each route changes the object, but no field that matters here.
    const changesAll = kind.isShared && !isDeepStrictEqual(this.#objects.get(object), view);
    if (view === undefined) {
      this.#objects.delete(object);
      const entry = this.#entries.get(object);
      if (entry !== undefined) this.#deps.budget.keep(entry, NOTHING);
      this.#entries.delete(object);
      this.#report(object, []);
    } else this.#objects.set(object, view);
    if (changesAll) this.changed();
    const claimsOf = this.#claimsOf;
    // Until then, its earlier claims count.
    if (claimsOf === undefined) this.#limited(object, this.#reported.get(object) ?? []);
    else if (view !== undefined)
      this.#safely(object, () => this.#report(object, this.#limited(object, claimsOf(view, object))));
  }

  async #evaluateAll() {
    const slice = timeSlices();
    const claimsOf = this.#rules.prepare(this.#objects);
    this.#claimsOf = claimsOf;
    const news: (readonly [object: string, view: V, claims: readonly View[]])[] = [];
    for (const [object, view] of this.#objects) {
      this.#safely(object, () => {
        const views = this.#limited(object, claimsOf(view, object));
        if (!isDeepStrictEqual(views, this.#reported.get(object) ?? [])) news.push([object, view, views]);
      });
      await slice();
    }
    // Claims that end together are reported together, so that the removal guard sees all of them at once. A change
    // meanwhile was evaluated at once.
    for (const [object, view, views] of news)
      if (this.#objects.get(object) === view) this.#safely(object, () => this.#report(object, views));
    if (!this.#kinds.every(({ isKnown }) => isKnown)) return undefined;
    this.#onSynced?.();
    this.#onSynced = undefined;
    return undefined;
  }

  #report(object: string, views: readonly View[]): void {
    if (isDeepStrictEqual(views, this.#reported.get(object) ?? [])) return;
    if (views.length === 0) this.#reported.delete(object);
    else this.#reported.set(object, views);
    this.#sink(object, views);
  }

  /** The claims of an object that fit, and the one that reports what its namespace lacks room for. */
  #limited(object: string, all: readonly View[]): readonly View[] {
    const view = this.#objects.get(object);
    const entry = this.#entries.get(object);
    if (view === undefined || entry === undefined) return all;
    const { budget } = this.#deps;
    budget.keep(entry, entry.own);
    const fitting = all.filter(({ hostname }, place) => place < entry.own.used || budget.takes(entry, hostname));
    const report = budget.reportOf(entry);
    return report === undefined ? fitting : [...fitting, { ...report, from: view.ref, created: view.created }];
  }

  /** An object that cannot be evaluated affects only itself: its earlier claims stay. It is logged once. */
  #safely(object: string, run: () => void): void {
    try {
      run();
    } catch (error) {
      const reason = describeError(error);
      if (this.#failed.pass(object, { reason }) !== undefined)
        this.#deps.log.error({ code: "internal-error", object: show(object) }, reason);
    }
  }
}

/**
 * How a cluster serves a kind: the version, and the API's name of the kind. Returns a reason if the group does not
 * serve the kind as the configuration names it. Undefined: the kind is missing.
 */
async function servedAs(
  { group, resource, versions, builtIn, named }: Kind,
  { client }: Pick<SourceDeps, "client">,
  signal: AbortSignal,
): Promise<{ version: string; name: string } | Reason | undefined> {
  if (builtIn !== undefined) return { version: versions[0] ?? "", name: builtIn };
  const list = async (path: string, key: "versions" | "resources") =>
    entriesOf(await ifFound(client.get<Raw>(path, undefined, { signal })), key, path);
  const served = (await list(`/apis/${group}`, "versions")).map(({ version }) => version);
  for (const version of versions.filter((each) => served.includes(each))) {
    const resources = await list(`/apis/${group}/${version}`, "resources");
    const found = resources.find(({ name }) => name === resource);
    if (found !== undefined) return { version, name: found.kind ?? resource };
  }
  if (served.length === 0 || !named) return undefined;
  const text = `${group} has no ${show(resource)} of version ${versions.join(" or ")}; it has ${served.join(", ")}`;
  return { code: "resource-not-served", text };
}

const ENTRY = { name: "text", kind: "text", version: "text" } as const;
const readDiscovery = readerOf({ versions: [ENTRY], resources: [ENTRY] });

/** Returns the list in a document. Without this check, any other response would mean "nothing is served". */
function entriesOf(document: Raw | undefined, key: "versions" | "resources", path: string) {
  const entries = document === undefined ? [] : readDiscovery(document)[key];
  if (entries === undefined) throw new SwitchbackError("data-corrupt", `GET ${path}: the response has no ${key}`);
  return entries;
}
