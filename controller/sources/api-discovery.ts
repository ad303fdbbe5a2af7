import type { Reason } from "#hostmap/types.ts";
import { describeError, ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { startPromptTimer } from "#lib/kube/time.ts";
import { listOf, mapOf, type Raw, textOf } from "./raw-object.ts";

/** A resource that an API group serves in one version. */
export interface ServedResource {
  readonly version: string;
  readonly kind: string;
  /** `list`, `watch`, `create`, ...; a definition that is being removed can no longer `create`. */
  readonly verbs: readonly string[];
}

/** The versions and resources that an API group serves. */
export interface ServedGroup {
  /** All its versions; empty if the group does not exist. */
  readonly versions: readonly string[];
  /** By plural name, in each of the requested versions. */
  readonly resources: ReadonlyMap<string, readonly ServedResource[]>;
}

/**
 * Receives each discovery result, and the time of its request (`performance.now`). Not called after a failed request.
 */
type GroupListener = (served: ServedGroup, begunAt: number) => void;

/** Follows what one API group serves, by polling its discovery document, which every account may read. */
export interface GroupWatch {
  /** `versions` are the versions to read, the preferred one first. Polls at once. */
  follow(versions: readonly string[], listener: GroupListener): void;
  /** Polls within `ms`, and then at the normal interval. */
  pollSoon(ms: number): void;
  /** Why the last request failed, or undefined. */
  readonly problem: Reason | undefined;
  stop(): Promise<void>;
}

type Get = (path: string) => Promise<Raw>;

/** Retry delay after a failed request, unless the next poll is due sooner. */
const RETRY_MS = 2_000;

/** `group` is empty for the core group. Polls every `everyMs`. */
export function watchGroup(deps: {
  readonly client: Pick<KubeClient, "get">;
  readonly group: string;
  readonly everyMs: number;
}): GroupWatch {
  const { client, group, everyMs } = deps;
  const versions = new Set<string>();
  const listeners: GroupListener[] = [];
  const stopped = new AbortController();
  let problem: Reason | undefined;
  const get: Get = (path) => client.get<Raw>(path, undefined, { signal: stopped.signal });

  async function reconcile(): Promise<ReconcileResult> {
    const begunAt = performance.now();
    const served = await look(get, group, [...versions]);
    problem = undefined;
    if (!stopped.signal.aborted) for (const listener of listeners) listener(served, begunAt);
    return { requeueAfter: begunAt + everyMs - performance.now() };
  }

  const retryMs = Math.min(RETRY_MS, everyMs);
  const reconciler = new Reconciler({
    reconcile,
    retry: {
      backoff: createBackoff(retryMs, retryMs),
      onError: (error) => {
        problem = { code: "discovery-failed", text: describeError(error) };
      },
    },
    startTimer: startPromptTimer,
  });

  return {
    follow(wanted, listener) {
      for (const version of wanted) versions.add(version);
      listeners.push(listener);
      reconciler.enqueue();
    },
    pollSoon(ms) {
      reconciler.enqueue(ms);
    },
    get problem() {
      return problem;
    },
    async stop() {
      stopped.abort();
      await reconciler.stop();
    },
  };
}

async function look(get: Get, group: string, wanted: readonly string[]): Promise<ServedGroup> {
  const served = new Map<string, ServedResource[]>();
  const versions = group === "" ? ["v1"] : await versionsOf(get, group);
  for (const version of wanted.filter((each) => versions.includes(each))) {
    const path = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
    // A version that was removed between the two requests serves no resources.
    const list = await ifFound(get(path));
    for (const resource of entriesOf(list, "resources", path)) {
      const name = textOf(resource.name);
      if (name === undefined) continue;
      const verbs = listOf(resource.verbs).map(String);
      served.set(name, [...(served.get(name) ?? []), { version, kind: textOf(resource.kind) ?? name, verbs }]);
    }
  }
  return { versions, resources: served };
}

async function versionsOf(get: Get, group: string): Promise<string[]> {
  const answer = await ifFound(get(`/apis/${group}`));
  return entriesOf(answer, "versions", `/apis/${group}`).map(({ version }) => String(version));
}

/** Returns the list in a document. Without this check, any other response would mean "nothing is served". */
function entriesOf(document: Raw | undefined, key: string, path: string): Raw[] {
  if (document === undefined) return [];
  if (!Array.isArray(document[key]))
    throw new SwitchbackError("data-corrupt", `GET ${path}: the response has no ${key}`);
  return listOf(document[key]).map(mapOf);
}
