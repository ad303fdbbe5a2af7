import { show } from "../../hostmap/hostnames.ts";
import type { Reason } from "../../hostmap/types.ts";
import type { KubeClient } from "../../kube/client.ts";
import { resourcePath } from "../../kube/paths.ts";
import { type Informer, watchObjects } from "../../kube/watch.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { GroupWatch, ServedGroup, ServedResource } from "./api-discovery.ts";
import type { Raw } from "./raw-object.ts";
import type { SourceState } from "./types.ts";

/** A kind that is followed, whatever is kept of its objects. */
export interface OptionalKind {
  /** Every object was told, or there is no such kind. */
  readonly known: boolean;
  readonly state: SourceState;
  stop(): Promise<void>;
}

/** What it takes to follow the objects of a kind that a cluster may or may not have. */
interface KindDeps<P> {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly discovery: GroupWatch;
  /** Empty: the core group. */
  readonly group: string;
  /** The plural: `httproutes`. */
  readonly resource: string;
  /** Versions that can be read, the preferred first. */
  readonly versions: readonly string[];
  /** A person wrote the resource's name: a group without it is a problem. */
  readonly named?: boolean;
  /** Keeps what matters of an object; `kind` is what the API calls it. Must copy what it takes. */
  readonly project: (raw: Raw, kind: string) => P;
  /** Hears of every object, then of every change; undefined: it is gone. */
  readonly onChange: (key: string, value: P | undefined) => void;
  /** Called once, when every object was told, or when the cluster turned out not to have the kind. */
  readonly onKnown: () => void;
  /** How long the objects of a kind that is no longer served count as they were last seen. */
  readonly removedMs: number;
  readonly log: Logger;
}

/**
 * An object that was deleted is told as gone only after a look, this much later, has found its kind still served: the API server deletes
 * all objects of a definition that is removed, and those deletions say nothing of what their owners want.
 */
export const CONFIRM_MS = 1_000;

/**
 * Follows one kind, which may be installed, removed and installed again at any time. A kind that was never there has no objects; one that
 * goes away keeps those it had, for `removedMs`, and says so.
 */
export class OptionalInformer<P> implements OptionalKind {
  readonly #deps: KindDeps<P>;
  readonly #told = new Set<string>();
  /** Objects that were deleted, and when (`performance.now`), until their kind is seen to be there still. */
  readonly #going = new Map<string, number>();
  readonly #ended: Promise<void>[] = [];
  #watcher: Informer<P> | undefined;
  #version: string | undefined;
  #creatable = false;
  #removedAt: number | undefined;
  #known = false;
  /** The group is there, and not as it was expected. */
  #mismatch: Reason | undefined;
  #stopped = false;

  constructor(deps: KindDeps<P>) {
    this.#deps = deps;
    deps.discovery.follow(deps.versions, (served, begunAt) => this.#looked(served, begunAt));
  }

  get known(): boolean {
    return this.#known;
  }

  get state(): SourceState {
    const { resource, group } = this.#deps;
    const name = group === "" ? resource : `${resource}.${group}`;
    const { inactiveMs } = this.#watcher?.state ?? {};
    const problem = this.#problem();
    return {
      name,
      synced: this.#known,
      ...(inactiveMs !== undefined && { inactiveMs }),
      problems: problem === undefined ? [] : [{ place: name, ...problem }],
    };
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all([...this.#ended, this.#watcher?.stop()]);
  }

  #problem(): Reason | undefined {
    if (this.#removedAt === undefined) {
      return this.#deps.discovery.problem ?? this.#watcher?.state.problem ?? this.#mismatch;
    }
    const minutes = Math.ceil((this.#removedAt + this.#deps.removedMs - performance.now()) / 60_000);
    const text = `no longer served; its ${this.#told.size} objects count as last seen for another ${Math.max(0, minutes)} min`;
    return { code: "kind-removed", text };
  }

  #looked(served: ServedGroup, begunAt: number): void {
    if (this.#stopped) return;
    const { resource, versions } = this.#deps;
    const choice = served.resources.get(resource) ?? [];
    this.#mismatch = this.#mismatchWith(served);
    const found = versions.map((version) => choice.find((each) => each.version === version)).find(Boolean);
    if (found === undefined || this.#isEnding(found)) this.#missing();
    else this.#served(found, begunAt);
  }

  /** A version that nobody can read, or (where a person wrote the name) a resource that the group does not have. */
  #mismatchWith({ versions, resources }: ServedGroup): Reason | undefined {
    const { group, resource, versions: wanted, named = false } = this.#deps;
    if (versions.length === 0 || resources.has(resource)) return undefined;
    if (!wanted.some((version) => versions.includes(version))) {
      const text = `the cluster serves ${group} as ${versions.join(", ")}; what is read is ${wanted.join(", ")}`;
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
    if (found.version !== this.#version) this.#watch(found);
    this.#settle(begunAt);
  }

  /** A definition that is being removed serves what it has and takes nothing new (apiextensions-apiserver, discovery). */
  #isEnding({ verbs }: ServedResource): boolean {
    return this.#creatable && !verbs.includes("create");
  }

  #missing(): void {
    if (this.#watcher !== undefined && this.#told.size > 0) {
      if (this.#removedAt === undefined) this.#log("warn", "a kind is no longer served; what was known of it stays");
      this.#removedAt ??= performance.now();
      if (performance.now() < this.#removedAt + this.#deps.removedMs) return;
      this.#log("warn", "a kind has not been served for long; its objects are gone");
    }
    this.#forget();
    this.#becomeKnown();
  }

  #forget(): void {
    this.#end();
    this.#version = undefined;
    this.#creatable = false;
    this.#removedAt = undefined;
    this.#going.clear();
    for (const key of [...this.#told]) this.#tell(key, undefined);
  }

  #watch({ version, kind }: ServedResource): void {
    const { client, group, resource, project, log } = this.#deps;
    this.#end();
    this.#version = version;
    const watcher = watchObjects<P, Raw>({
      client,
      path: resourcePath({ group, version, resource }),
      project: (raw) => project(raw, kind),
      onChange: ({ key, after }) => {
        if (this.#watcher !== watcher) return;
        if (after === undefined) this.#going.set(key, performance.now());
        else this.#tell(key, after);
        if (after === undefined) this.#deps.discovery.lookSoon(CONFIRM_MS);
      },
      onSynced: () => {
        if (this.#watcher !== watcher) return;
        // Told by a watch of another version, and not there any more.
        for (const key of this.#told) if (!watcher.objects().has(key)) this.#going.set(key, performance.now());
        if (this.#going.size > 0) this.#deps.discovery.lookSoon(CONFIRM_MS);
        this.#becomeKnown();
      },
      log,
    });
    this.#watcher = watcher;
  }

  /** Tells of the deletions that this look confirms. A watch in trouble may be that of a kind that comes and goes. */
  #settle(begunAt: number): void {
    const healthy = this.#watcher?.state.problem === undefined;
    let earliest = Number.POSITIVE_INFINITY;
    for (const [key, at] of this.#going) {
      if (healthy && at + CONFIRM_MS <= begunAt) this.#tell(key, undefined);
      else earliest = Math.min(earliest, at);
    }
    if (healthy && earliest < Number.POSITIVE_INFINITY) {
      this.#deps.discovery.lookSoon(Math.max(0, earliest + CONFIRM_MS - performance.now()));
    }
  }

  #tell(key: string, value: P | undefined): void {
    this.#going.delete(key);
    if (value !== undefined) this.#told.add(key);
    else if (!this.#told.delete(key)) return;
    this.#deps.onChange(key, value);
  }

  #becomeKnown(): void {
    if (this.#known) return;
    this.#known = true;
    this.#deps.onKnown();
  }

  #end(): void {
    const watcher = this.#watcher;
    this.#watcher = undefined;
    if (watcher !== undefined) this.#ended.push(watcher.stop());
  }

  #log(level: "info" | "warn", message: string): void {
    const { resource, group, log } = this.#deps;
    log[level]({ code: "kind-removed", resource, group, objects: this.#told.size }, message);
  }
}
