import { METADATA_LIST } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { EventRecorder } from "#lib/kube/events.ts";
import type { StartTimer } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";

// Shared by all reporters that write Events about objects of others.

export interface ObjectEventsDeps {
  readonly events: Pick<EventRecorder, "record" | "waitMs">;
  readonly client: Pick<KubeClient, "get">;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly wallClock: () => number;
  /** A monotonic clock, milliseconds. */
  readonly now?: () => number;
  /** Only tests set it. */
  readonly startTimer?: StartTimer;
}

/**
 * A new leader reports objects and contradictions that are younger than this. That repeats nothing, because the
 * Events of an earlier leader still exist.
 */
export const YOUNG_MS = 10 * 60_000;
/** Delay before an object is read again after a failed read. */
export const RETRY_MS = 30_000;

interface ObjectList {
  readonly items: ReadonlyArray<{ readonly metadata: { readonly uid?: string } }>;
}

/**
 * Reads the uid of an object, because `kubectl describe` finds Events by uid, and we do not store it. `path` is the
 * path of the collection. Undefined: the object is gone.
 */
export async function uidOf(client: ObjectEventsDeps["client"], path: string, name: string) {
  const query = { fieldSelector: `metadata.name=${name}` };
  const { items } = await client.get<ObjectList>(path, query, { accept: METADATA_LIST });
  return items[0]?.metadata.uid;
}
