import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { describeError, ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { startPromptTimer } from "#lib/kube/time.ts";
import { type Informer, type WatchOptions, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { type Kept, KindLimit, type PickNames } from "./kind-limit.ts";
import { listOf, mapOf, type Raw, textOf } from "./raw-object.ts";
import type { ApiResource, SourceState, View, ViewSink } from "./types.ts";

/** A kind that a cluster may not have. V is what is kept of an object. */
export interface OptionalKind<V extends Kept = Kept> {
  /** Precedes the object's key, `namespace/name`, in calls of the sink. Each kind of a source has another one. */
  readonly prefix: string;
  /** Empty for the core group. */
  readonly group: string;
  /** The plural name: `httproutes`. */
  readonly resource: string;
  /** The supported versions, the preferred first. */
  readonly versions: readonly string[];
  /** Whether the configuration names the resource. Then a group without the resource is a problem. */
  readonly named?: boolean;
  /**
   * Projects an object; `kind` is the API's name of the kind. Must copy the values that it keeps. Undefined: the object
   * is ignored.
   */
  project(raw: Raw, kind: string): V | undefined;
  /** See `PickNames`. Without it, the kind has no names, and everything is kept. */
  pick?(view: V, keeps: (name: string) => boolean): V;
}

export interface KindsDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly config: Pick<Config["sources"], "discoverySeconds" | "removedKindSeconds">;
  readonly budget: ClaimBudget;
  readonly log: Logger;
}

interface Callbacks<V extends Kept> {
  readonly sink: ViewSink;
  /** Called for every object, and then for every change; undefined: the object was deleted. */
  readonly onChange: (object: string, value: V | undefined) => void;
  /** Called once, after every object was reported, or when discovery has shown that the cluster has no such kinds. */
  readonly onKnown: () => void;
  /** Evaluates the objects of a namespace again. See `KindLimit`. */
  readonly reevaluate?: (namespace: string) => void;
}

/** A resource that an API group serves in one version. */
interface ServedResource {
  readonly version: string;
  readonly kind: string;
  /** A definition that is being removed still serves its objects but accepts no new ones (apiextensions-apiserver). */
  readonly accepts: boolean;
}

/** The versions and resources that an API group serves. */
interface Served {
  /** All its versions; empty if the group does not exist. */
  readonly versions: readonly string[];
  /** By plural name, in each of the supported versions. */
  readonly resources: ReadonlyMap<string, readonly ServedResource[]>;
}

/** Delay after a failed discovery request, unless the next one is due sooner, milliseconds. */
const RETRY_MS = 2_000;
/**
 * A deletion is reported only after a discovery request, this much later, has shown that the kind is still served. If
 * a definition is removed, the API server deletes all its objects, although nobody intended to delete these objects.
 */
export const CONFIRM_MS = 1_000;

/**
 * Follows kinds that may be installed, removed and installed again at any time. It polls discovery, which every account
 * may read, and watches what is served. Unknown is not missing: while discovery fails, everything stays.
 */
export class OptionalKinds<V extends Kept> {
  readonly #deps: KindsDeps;
  readonly #wanted: readonly OptionalKind<V>[];
  readonly #kinds: FollowedKind<V>[] = [];
  readonly #pollers: Reconciler[] = [];
  readonly #stopped = new AbortController();

  constructor(deps: KindsDeps, wanted: readonly OptionalKind<V>[]) {
    this.#deps = deps;
    this.#wanted = wanted;
  }

  start(callbacks: Callbacks<V>): void {
    let isKnown = false;
    const onKnown = () => {
      if (isKnown || this.#kinds.some(({ state }) => !state.synced)) return;
      isKnown = true;
      callbacks.onKnown();
    };
    for (const [group, kinds] of Map.groupBy(this.#wanted, (kind) => kind.group))
      this.#follow(group, kinds, { ...callbacks, onKnown });
    for (const poller of this.#pollers) poller.enqueue();
  }

  /** One state for each kind, in the order in which they were given. */
  state(): SourceState[] {
    return this.#wanted.flatMap((wanted) => this.#kinds.find((kind) => kind.wanted === wanted)?.state ?? []);
  }

  /** Passes the claims of an object on, as far as the budget has room. */
  report(object: string, views: readonly View[]): void {
    const kind = this.#kindOf(object);
    kind?.limit?.report(object.slice(kind.wanted.prefix.length), views);
  }

  /** The resource of an object that was passed to the sink. */
  resourceOf(object: string): ApiResource | undefined {
    return this.#kindOf(object)?.resource;
  }

  #kindOf(object: string): FollowedKind<V> | undefined {
    return this.#kinds.find(({ wanted }) => object.startsWith(wanted.prefix));
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await Promise.all([...this.#pollers, ...this.#kinds].map((part) => part.stop()));
  }

  /** Follows the kinds of one group. */
  #follow(group: string, wanted: readonly OptionalKind<V>[], callbacks: Callbacks<V>): void {
    const { client, config } = this.#deps;
    const { signal } = this.#stopped;
    const everyMs = config.discoverySeconds * 1000;
    const versions = new Set(wanted.flatMap((kind) => kind.versions));
    const retryMs = Math.min(RETRY_MS, everyMs);
    const poller = new Reconciler({
      reconcile: async () => {
        const begunAt = performance.now();
        const served = await look((path) => client.get<Raw>(path, undefined, { signal }), group, [...versions]);
        for (const kind of signal.aborted ? [] : kinds) kind.discovered(served, begunAt);
        return { requeueAfter: begunAt + everyMs - performance.now() };
      },
      retry: {
        backoff: createBackoff(retryMs, retryMs),
        onError: (error) => {
          for (const kind of kinds) kind.problem = { code: "discovery-failed", text: describeError(error) };
        },
      },
      startTimer: startPromptTimer,
    });
    const pollSoon = () => poller.enqueue(CONFIRM_MS);
    const kinds = wanted.map((kind) => new FollowedKind<V>(kind, { ...this.#deps, ...callbacks, pollSoon }));
    this.#kinds.push(...kinds);
    this.#pollers.push(poller);
  }
}

/**
 * One kind. If it was never installed, it has no objects. If it is removed, its last known objects stay for
 * `sources.removedKindSeconds`, with a problem.
 */
class FollowedKind<V extends Kept> {
  readonly wanted: OptionalKind<V>;
  /** Undefined: the kind has no names. */
  readonly limit: KindLimit<V> | undefined;
  /** Why the kind cannot be read as it is wanted. */
  problem: Reason | undefined;
  readonly #deps: KindsDeps & Callbacks<V> & { readonly pollSoon: () => void };
  readonly #reported = new Set<string>();
  /** Deleted objects and the time of the deletion (`performance.now`), until the deletion is confirmed. */
  readonly #deletedAt = new Map<string, number>();
  readonly #ended: Promise<void>[] = [];
  #informer: Informer<V> | undefined;
  /** The watched resource. */
  #found: ServedResource | undefined;
  /** Whether the kind accepted new objects. Some APIs never do. */
  #accepted = false;
  #removedAt: number | undefined;
  #known = false;

  constructor(wanted: OptionalKind<V>, deps: KindsDeps & Callbacks<V> & { readonly pollSoon: () => void }) {
    this.wanted = wanted;
    this.#deps = deps;
    const pick: PickNames<V> | undefined = wanted.pick?.bind(wanted);
    this.limit = pick && new KindLimit<V>({ ...deps, prefix: wanted.prefix, pick });
  }

  /** `synced` once every object was reported, or if the kind does not exist. */
  get state(): SourceState {
    const { resource, group } = this.wanted;
    const name = group === "" ? resource : `${resource}.${group}`;
    const { inactiveMs, problem: ofWatch } = this.#informer?.state ?? {};
    const problem = this.problem ?? ofWatch;
    return {
      name,
      synced: this.#known,
      ...(inactiveMs !== undefined && { inactiveMs }),
      problems: problem === undefined ? [] : [{ place: name, ...problem }],
    };
  }

  /** Undefined while the kind is not served. */
  get resource(): ApiResource | undefined {
    const { group, resource } = this.wanted;
    return this.#found && { group, resource, version: this.#found.version, kind: this.#found.kind };
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#ended, this.#informer?.stop()]);
  }

  /** Takes the result of a discovery request, which began at `begunAt` (`performance.now`). */
  discovered(served: Served, begunAt: number): void {
    const offers = served.resources.get(this.wanted.resource) ?? [];
    const [found] = this.wanted.versions.flatMap((version) => offers.find((offer) => offer.version === version) ?? []);
    this.problem = this.#mismatchWith(served);
    if (found === undefined || (this.#accepted && !found.accepts)) {
      this.#missing();
      return;
    }
    this.#removedAt = undefined;
    this.#accepted ||= found.accepts;
    if (found.version !== this.#found?.version) this.#watch(found);
    this.#confirmDeletions(begunAt);
  }

  /** Why the kind is not read, although its group exists. A kind that is only optional may be missing. */
  #mismatchWith({ versions, resources }: Served): Reason | undefined {
    const { group, resource, versions: wanted, named = false } = this.wanted;
    if (versions.length === 0 || resources.has(resource)) return undefined;
    if (!named && wanted.some((version) => versions.includes(version))) return undefined;
    const has = [...versions, ...[...resources.keys()].filter((name) => !name.includes("/"))].join(", ");
    const text = `${group} has no ${show(resource)} of version ${wanted.join(" or ")}; it has ${has}`;
    return { code: "resource-not-served", text };
  }

  #missing(): void {
    this.#removedAt ??= performance.now();
    const keptMs = this.#deps.config.removedKindSeconds * 1000;
    if (this.#reported.size > 0 && performance.now() < this.#removedAt + keptMs) {
      const { size } = this.#reported;
      const text = `no longer served; its ${size} last known objects are kept for ${keptMs / 60_000} min`;
      this.problem = { code: "kind-removed", text };
      return;
    }
    this.#end();
    this.#found = undefined;
    this.#accepted = false;
    for (const key of this.#reported) this.#report(key, undefined);
    this.#becomeKnown();
  }

  #watch(found: ServedResource): void {
    const { version, kind } = found;
    const { client, log } = this.#deps;
    const { group, resource } = this.wanted;
    this.#end();
    this.#found = found;
    const options: WatchOptions<V, Raw> = {
      client,
      path: resourcePath({ group, version, resource }),
      project: (raw) => this.wanted.project(raw, kind),
      onChange: ({ key, after, dropped }) => {
        if (this.#informer !== informer) return;
        if (after !== undefined || dropped) this.#report(key, after);
        else this.#deleted(key);
      },
      onSynced: () => {
        if (this.#informer !== informer) return;
        // A watch of another version had reported this object, and the object was deleted since.
        for (const key of this.#reported) if (!informer.objects().has(key)) this.#deleted(key);
        this.#becomeKnown();
      },
      log,
    };
    const informer = this.limit?.watch(options) ?? watchObjects(options);
    this.#informer = informer;
  }

  #deleted(key: string): void {
    this.#deletedAt.set(key, performance.now());
    this.#deps.pollSoon();
  }

  /** A failing watch may belong to a kind that is being removed. */
  #confirmDeletions(begunAt: number): void {
    if (this.#informer?.state.problem !== undefined) return;
    for (const [key, at] of this.#deletedAt) if (at + CONFIRM_MS <= begunAt) this.#report(key, undefined);
    if (this.#deletedAt.size > 0) this.#deps.pollSoon();
  }

  #report(key: string, value: V | undefined): void {
    this.#deletedAt.delete(key);
    if (value !== undefined) this.#reported.add(key);
    else if (!this.#reported.delete(key)) return;
    if (value === undefined) this.limit?.leave(key);
    this.#deps.onChange(this.wanted.prefix + key, value);
  }

  #becomeKnown(): void {
    this.#known = true;
    this.#deps.onKnown();
  }

  #end(): void {
    if (this.#informer !== undefined) this.#ended.push(this.#informer.stop());
    this.#informer = undefined;
  }
}

/** Reads what a group serves in these versions. */
async function look(get: (path: string) => Promise<Raw>, group: string, wanted: readonly string[]): Promise<Served> {
  const root = `/apis/${group}`;
  const versions =
    group === "" ? ["v1"] : entriesOf(await ifFound(get(root)), "versions", root).map(({ version }) => String(version));
  const resources = new Map<string, ServedResource[]>();
  for (const version of wanted.filter((each) => versions.includes(each))) {
    const path = group === "" ? `/api/${version}` : `${root}/${version}`;
    // A version that was removed between the two requests serves no resources.
    for (const resource of entriesOf(await ifFound(get(path)), "resources", path)) {
      const name = textOf(resource.name);
      if (name === undefined) continue;
      const accepts = listOf(resource.verbs).includes("create");
      resources.set(name, [...(resources.get(name) ?? []), { version, kind: textOf(resource.kind) ?? name, accepts }]);
    }
  }
  return { versions, resources };
}

/** Returns the list in a document. Without this check, any other response would mean "nothing is served". */
function entriesOf(document: Raw | undefined, key: string, path: string): Raw[] {
  if (document === undefined) return [];
  if (!Array.isArray(document[key]))
    throw new SwitchbackError("data-corrupt", `GET ${path}: the response has no ${key}`);
  return listOf(document[key]).map(mapOf);
}
