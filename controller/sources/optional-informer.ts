import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { type Informer, type WatchOptions, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { GroupWatch, ServedGroup, ServedResource } from "./api-discovery.ts";
import type { KindLimit } from "./limited-objects.ts";
import type { Raw } from "./raw-object.ts";
import type { ApiResource, SourceState } from "./types.ts";

/** An informer for a kind, without the type of its projection. */
export interface OptionalKind {
  /** True once every object was reported, or if the kind does not exist. */
  readonly known: boolean;
  readonly state: SourceState;
  readonly resource: ApiResource | undefined;
  stop(): Promise<void>;
}

/** The resource of an object whose key begins with its kind: `HTTPRoute shop/web`. */
export function resourceOfKind(kinds: readonly OptionalKind[], object: string): ApiResource | undefined {
  const kind = object.split(" ", 1)[0];
  return kinds.map(({ resource }) => resource).find((resource) => resource?.kind === kind);
}

/** Options to follow the objects of a kind that a cluster may not have. */
interface KindDeps<P> {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly discovery: GroupWatch;
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
  readonly project: (raw: Raw, kind: string) => P | undefined;
  /** Limits what is kept of the objects. Default: everything is kept. */
  readonly limit?: KindLimit<P> | undefined;
  /** Called for every object, and then for every change; undefined: the object was deleted. */
  readonly onChange: (key: string, value: P | undefined) => void;
  /**
   * Called once, after every object was reported, or when discovery has shown that the cluster does not have the kind.
   */
  readonly onKnown: () => void;
  /** How long the last known objects of a kind that is no longer served are kept. */
  readonly removedMs: number;
  readonly log: Logger;
}

/**
 * A deletion is reported only after a discovery request, this much later, has shown that the kind is still served. If
 * a definition is removed, the API server deletes all its objects, although nobody intended to delete these objects.
 */
export const CONFIRM_MS = 1_000;

/**
 * Follows one kind, which may be installed, removed and installed again at any time. A kind that was never
 * installed has no objects. A removed kind keeps its last known objects for `removedMs`, and reports a problem.
 */
export class OptionalInformer<P> implements OptionalKind {
  readonly #deps: KindDeps<P>;
  readonly #reported = new Set<string>();
  /**
   * Deleted objects and the time of the deletion (`performance.now`), until the kind is confirmed to be still served.
   */
  readonly #deletedAt = new Map<string, number>();
  readonly #ended: Promise<void>[] = [];
  #informer: Informer<P> | undefined;
  /** The watched resource. */
  #found: ServedResource | undefined;
  #creatable = false;
  #removedAt: number | undefined;
  #known = false;
  /** Set if the group exists, but does not serve the expected version or resource. */
  #mismatch: Reason | undefined;
  #stopped = false;

  constructor(deps: KindDeps<P>) {
    this.#deps = deps;
    deps.discovery.follow(deps.versions, (served, begunAt) => this.#onDiscovery(served, begunAt));
  }

  get known(): boolean {
    return this.#known;
  }

  get state(): SourceState {
    const { resource, group } = this.#deps;
    const name = group === "" ? resource : `${resource}.${group}`;
    const { inactiveMs } = this.#informer?.state ?? {};
    const problem = this.#problem();
    return {
      name,
      synced: this.#known,
      ...(inactiveMs !== undefined && { inactiveMs }),
      problems: problem === undefined ? [] : [{ place: name, ...problem }],
    };
  }

  /** Undefined while the kind is not served. */
  get resource(): ApiResource | undefined {
    const { group, resource } = this.#deps;
    return this.#found && { group, resource, version: this.#found.version, kind: this.#found.kind };
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all([...this.#ended, this.#informer?.stop()]);
  }

  #problem(): Reason | undefined {
    if (this.#removedAt === undefined) {
      return this.#deps.discovery.problem ?? this.#informer?.state.problem ?? this.#mismatch;
    }
    const minutes = Math.ceil((this.#removedAt + this.#deps.removedMs - performance.now()) / 60_000);
    const text =
      `no longer served; its ${this.#reported.size} last known objects are kept for another ` +
      `${Math.max(0, minutes)} min`;
    return { code: "kind-removed", text };
  }

  #onDiscovery(served: ServedGroup, begunAt: number): void {
    if (this.#stopped) return;
    const { resource, versions } = this.#deps;
    const choice = served.resources.get(resource) ?? [];
    this.#mismatch = this.#mismatchWith(served);
    const found = versions.map((version) => choice.find((each) => each.version === version)).find(Boolean);
    if (found === undefined || this.#isEnding(found)) this.#missing();
    else this.#served(found, begunAt);
  }

  /** Reports an unsupported version, or a configured resource that the group does not have. */
  #mismatchWith({ versions, resources }: ServedGroup): Reason | undefined {
    const { group, resource, versions: wanted, named = false } = this.#deps;
    if (versions.length === 0 || resources.has(resource)) return undefined;
    if (!wanted.some((version) => versions.includes(version))) {
      const text = `the cluster serves ${group} as ${versions.join(", ")}; supported are ${wanted.join(", ")}`;
      return { code: "version-not-served", text };
    }
    if (!named) return undefined;
    const known = [...resources.keys()].filter((name) => !name.includes("/"));
    return { code: "resource-not-served", text: `${group} has no ${show(resource)}; it has ${known.join(", ")}` };
  }

  #served(found: ServedResource, begunAt: number): void {
    if (this.#removedAt !== undefined) this.#log("info", "a kind is served again");
    this.#removedAt = undefined;
    this.#creatable ||= found.verbs.includes("create");
    if (found.version !== this.#found?.version) this.#watch(found);
    this.#settle(begunAt);
  }

  /**
   * A definition that is being removed still serves its objects but accepts no new ones (apiextensions-apiserver,
   * discovery).
   */
  #isEnding({ verbs }: ServedResource): boolean {
    return this.#creatable && !verbs.includes("create");
  }

  #missing(): void {
    if (this.#informer !== undefined && this.#reported.size > 0) {
      if (this.#removedAt === undefined)
        this.#log("warn", "a kind is no longer served; its last known objects are kept");
      this.#removedAt ??= performance.now();
      if (performance.now() < this.#removedAt + this.#deps.removedMs) return;
      this.#log("warn", "a kind has not been served for long; its objects are removed");
    }
    this.#forget();
    this.#becomeKnown();
  }

  #forget(): void {
    this.#end();
    this.#found = undefined;
    this.#creatable = false;
    this.#removedAt = undefined;
    this.#deletedAt.clear();
    for (const key of [...this.#reported]) this.#report(key, undefined);
  }

  #watch(found: ServedResource): void {
    const { version, kind } = found;
    const { client, group, resource, project, limit, log } = this.#deps;
    this.#end();
    this.#found = found;
    const options: WatchOptions<P, Raw> = {
      client,
      path: resourcePath({ group, version, resource }),
      pathIn: (namespace) => resourcePath({ group, version, resource, namespace }),
      project: (raw) => project(raw, kind),
      onChange: ({ key, after, dropped }) => {
        if (this.#informer !== informer) return;
        if (after !== undefined || dropped) this.#report(key, after);
        else {
          this.#deletedAt.set(key, performance.now());
          this.#deps.discovery.pollSoon(CONFIRM_MS);
        }
      },
      onSynced: () => {
        if (this.#informer !== informer) return;
        // A watch of another version had reported this object, and the object was deleted since.
        for (const key of this.#reported) if (!informer.objects().has(key)) this.#deletedAt.set(key, performance.now());
        if (this.#deletedAt.size > 0) this.#deps.discovery.pollSoon(CONFIRM_MS);
        this.#becomeKnown();
      },
      log,
    };
    const informer = limit?.watch(options) ?? watchObjects(options);
    this.#informer = informer;
  }

  /**
   * Reports the deletions that this discovery result confirms. A failing watch may belong to a kind that is being
   * removed.
   */
  #settle(begunAt: number): void {
    const healthy = this.#informer?.state.problem === undefined;
    let earliest = Number.POSITIVE_INFINITY;
    for (const [key, at] of this.#deletedAt) {
      if (healthy && at + CONFIRM_MS <= begunAt) this.#report(key, undefined);
      else earliest = Math.min(earliest, at);
    }
    if (healthy && earliest < Number.POSITIVE_INFINITY) {
      this.#deps.discovery.pollSoon(Math.max(0, earliest + CONFIRM_MS - performance.now()));
    }
  }

  #report(key: string, value: P | undefined): void {
    this.#deletedAt.delete(key);
    if (value === undefined) this.#deps.limit?.leave(key);
    if (value !== undefined) this.#reported.add(key);
    else if (!this.#reported.delete(key)) return;
    this.#deps.onChange(key, value);
  }

  #becomeKnown(): void {
    if (this.#known) return;
    this.#known = true;
    this.#deps.onKnown();
  }

  #end(): void {
    const informer = this.#informer;
    this.#informer = undefined;
    if (informer !== undefined) this.#ended.push(informer.stop());
  }

  #log(level: "info" | "warn", message: string): void {
    const { resource, group, log } = this.#deps;
    log[level]({ code: "kind-removed", resource, group, objects: this.#reported.size }, message);
  }
}
