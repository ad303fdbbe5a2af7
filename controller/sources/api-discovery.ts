import { describeError, SwitchbackError, statusOf } from "../../errors/errors.ts";
import type { Reason } from "../../hostmap/types.ts";
import { createBackoff } from "../../kube/backoff.ts";
import type { KubeClient } from "../../kube/client.ts";
import { type ReconcileResult, Reconciler } from "../../kube/reconciler.ts";
import { startPromptTimer } from "../../kube/time.ts";
import { listOf, mapOf, type Raw, textOf } from "./raw-object.ts";

/** A resource as a group and version of the API serves it. */
export interface ServedResource {
  readonly version: string;
  readonly kind: string;
  /** `list`, `watch`, `create`, ...; a definition that is being removed can no longer `create`. */
  readonly verbs: readonly string[];
}

/** What an API group serves. */
export interface ServedGroup {
  /** All its versions; none: the group is not there. */
  readonly versions: readonly string[];
  /** By plural, in each of the versions that were asked for. */
  readonly resources: ReadonlyMap<string, readonly ServedResource[]>;
}

/** Hears of each look: what is served, and when the look began (`performance.now`). Not called for a look that failed. */
type GroupListener = (served: ServedGroup, begunAt: number) => void;

/** Follows what one API group serves, by its discovery document, which every account may read. */
export interface GroupWatch {
  /** `versions`: those to look into, the preferred first. Looks at once. */
  follow(versions: readonly string[], listener: GroupListener): void;
  /** Looks within `ms`, and then as often as ever. */
  lookSoon(ms: number): void;
  /** Why the last look failed; undefined while all is well. */
  readonly problem: Reason | undefined;
  stop(): Promise<void>;
}

type Get = (path: string) => Promise<Raw>;

/** How soon a look that failed is repeated, unless the next one is due sooner. */
const RETRY_MS = 2_000;

/** `group`: empty for the core group. Looks every `everyMs`. */
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
    lookSoon(ms) {
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
    // A version that went between the two questions serves nothing.
    const list = await found(get(path));
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
  const answer = await found(get(`/apis/${group}`));
  return entriesOf(answer, "versions", `/apis/${group}`).map(({ version }) => String(version));
}

/** What a document lists. An answer that is no such document would read as "nothing is served". */
function entriesOf(document: Raw | undefined, key: string, path: string): Raw[] {
  if (document === undefined) return [];
  if (!Array.isArray(document[key])) throw new SwitchbackError("data-corrupt", `GET ${path}: the answer has no ${key}`);
  return listOf(document[key]).map(mapOf);
}

/** A 404 is an answer: there is no such thing. */
async function found<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (statusOf(error) === 404) return undefined;
    throw error;
  }
}
