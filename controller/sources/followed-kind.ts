import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { describeError, ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ClaimBudget, Entry } from "./claim-budget.ts";
import { listOf, mapOf, type ObjectOrigin, type Raw, textOf } from "./raw-object.ts";
import type { ApiResource, SourceState, View, ViewSink } from "./types.ts";

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

export interface SourceDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly config: Pick<Config["sources"], "discoverySeconds">;
  readonly budget: ClaimBudget;
  readonly log: Logger;
}

interface KindDeps<V extends Kept> extends SourceDeps {
  readonly sink: ViewSink;
  readonly onChange: (kind: Kind<V>, object: string, view: V | undefined) => void;
  /** Called once all objects of the kind were reported, or if it has none because the cluster does not serve it. */
  readonly onKnown: () => void;
}

/** A resource that an API group serves in one version. */
type Found = Pick<ApiResource, "version" | "kind">;

/** One kind. It may be installed, removed and installed again at any time. Unknown is not missing. */
export class FollowedKind<V extends Kept> {
  readonly wanted: Kind<V>;
  readonly #deps: KindDeps<V>;
  /** By object: what the budget has counted. Empty if the kind has no names. */
  readonly #entries = new Map<string, { readonly entry: Entry; readonly own: number }>();
  /** The keys of the reported objects. */
  readonly #reported = new Set<string>();
  readonly #ended: Promise<void>[] = [];
  #informer: Informer<V> | undefined;
  /** What is watched. */
  #found: Found | undefined;
  /** Why the kind cannot be read as it is wanted. */
  #problem: Reason | undefined;
  #known = false;

  constructor(wanted: Kind<V>, deps: KindDeps<V>) {
    this.wanted = wanted;
    this.#deps = deps;
  }

  /** `synced` once every object was reported, or if the kind does not exist. */
  get state(): SourceState {
    const { resource, group, builtIn } = this.wanted;
    const name = builtIn === undefined ? `${resource}.${group}` : resource;
    const state = informerState(name, this.#informer);
    const problems = this.#problem === undefined ? state.problems : [{ place: name, ...this.#problem }];
    return { ...state, synced: this.#known, problems };
  }

  /** Undefined while the kind is not served. */
  get resource(): ApiResource | undefined {
    const { group, resource } = this.wanted;
    return this.#found && { group, resource, ...this.#found };
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#ended, this.#informer?.stop()]);
  }

  /** Looks for the kind, unless it is being watched. That needs no right. Returns false if a request failed. */
  async discover(signal: AbortSignal): Promise<boolean> {
    const isGone = this.#informer?.state.problem?.code === "not-found";
    if (this.#informer !== undefined && !isGone) return true;
    try {
      const found = await this.#look(signal);
      if (signal.aborted) return true;
      this.#problem = found !== undefined && "code" in found ? found : undefined;
      if (found !== undefined && "version" in found) this.#watch(found);
      else this.#missing();
      return true;
    } catch (error) {
      this.#problem = { code: "discovery-failed", text: describeError(error) };
      return false;
    }
  }

  /** Returns a reason if the group does not serve the kind as the configuration names it. Undefined: it is missing. */
  async #look(signal: AbortSignal): Promise<Found | Reason | undefined> {
    const { group, resource, versions, builtIn, named } = this.wanted;
    if (builtIn !== undefined) return { version: versions[0] ?? "", kind: builtIn };
    const list = async (path: string, key: string) =>
      entriesOf(await ifFound(this.#deps.client.get<Raw>(path, undefined, { signal })), key, path);
    const served = (await list(`/apis/${group}`, "versions")).map(({ version }) => String(version));
    for (const version of versions.filter((each) => served.includes(each))) {
      const resources = await list(`/apis/${group}/${version}`, "resources");
      const found = resources.find(({ name }) => name === resource);
      if (found !== undefined) return { version, kind: textOf(found.kind) ?? resource };
    }
    if (served.length === 0 || !named) return undefined;
    const text = `${group} has no ${show(resource)} of version ${versions.join(" or ")}; it has ${served.join(", ")}`;
    return { code: "resource-not-served", text };
  }

  /** Returns the claims of an object that fit. A route may have more than its own names, those of its Gateway. */
  limited(object: string, views: readonly View[]): readonly View[] {
    const known = this.#entries.get(object);
    if (known === undefined) return views;
    const { budget } = this.#deps;
    const { entry, own } = known;
    budget.release(entry, own);
    return views.filter(({ hostname }, place) => place < own || budget.takes(entry, hostname));
  }

  /** An API server that restarts may not serve a kind for a while. If its definition is removed, it has no objects. */
  #missing(): void {
    const { size } = this.#reported;
    if (size > 0) {
      this.#problem = { code: "kind-removed", text: `no longer served; its ${size} last known objects are kept` };
      return;
    }
    this.#end();
    this.#found = undefined;
    this.#becomeKnown();
  }

  #watch(found: Found): void {
    const { client, log, sink } = this.#deps;
    const { group, resource, prefix } = this.wanted;
    const { version, kind } = found;
    this.#end();
    this.#found = found;
    const budgeted: Entry["kind"] = { sink, relist: () => informer.relist() };
    const informer: Informer<V> = watchObjects<V, Raw>({
      client,
      path: resourcePath({ group, version, resource }),
      project: (raw) => {
        const view = this.wanted.project(raw, kind);
        return view && this.#enter(view, budgeted);
      },
      isPartial: (key) => this.#entries.get(prefix + key)?.entry.isPartial === true,
      onChange: ({ key, after }) => {
        if (this.#informer === informer) this.#report(key, after);
      },
      onSynced: () => {
        if (this.#informer !== informer) return;
        // An earlier watch had reported this object.
        for (const key of this.#reported) if (!informer.objects().has(key)) this.#report(key, undefined);
        this.#becomeKnown();
      },
      log,
    });
    this.#informer = informer;
  }

  /** Returns what is kept of an object that is new or has changed. Undefined: nothing. */
  #enter(view: V, kind: Entry["kind"]): V | undefined {
    const { pick, prefix } = this.wanted;
    if (pick === undefined) return view;
    const { budget } = this.#deps;
    const { ref: from, created } = view;
    const object = prefix + (from.namespace === "" ? from.name : `${from.namespace}/${from.name}`);
    this.#leave(object);
    const entry: Entry = { object, from, created, kind, used: 0, isPartial: false };
    let isNameless = true;
    const kept = pick(view, (name) => {
      isNameless = false;
      return budget.takes(entry, name);
    });
    // An object without names takes room, too.
    if (isNameless) budget.takes(entry, "");
    if (entry.used === 0) return undefined;
    this.#entries.set(object, { entry, own: entry.used });
    return kept;
  }

  #leave(object: string): void {
    const known = this.#entries.get(object);
    if (known !== undefined) this.#deps.budget.release(known.entry);
    this.#entries.delete(object);
  }

  #report(key: string, view: V | undefined): void {
    const object = this.wanted.prefix + key;
    if (view !== undefined) this.#reported.add(key);
    else if (this.#reported.delete(key)) this.#leave(object);
    else return;
    this.#deps.onChange(this.wanted, object, view);
  }

  #becomeKnown(): void {
    const before = this.#known;
    this.#known = true;
    if (!before) this.#deps.onKnown();
  }

  #end(): void {
    if (this.#informer !== undefined) this.#ended.push(this.#informer.stop());
    this.#informer = undefined;
  }
}

/** Returns the list in a document. Without this check, any other response would mean "nothing is served". */
function entriesOf(document: Raw | undefined, key: string, path: string): Raw[] {
  if (document === undefined) return [];
  if (!Array.isArray(document[key]))
    throw new SwitchbackError("data-corrupt", `GET ${path}: the response has no ${key}`);
  return listOf(document[key]).map(mapOf);
}

/** Converts the state of an informer to the state of a source. */
export function informerState(name: string, informer: Informer<unknown> | undefined): SourceState {
  if (informer === undefined) return { name, synced: false, problems: [] };
  const { synced, problem, inactiveMs } = informer.state;
  return { name, synced, inactiveMs, problems: problem === undefined ? [] : [{ place: name, ...problem }] };
}
