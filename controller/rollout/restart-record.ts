import * as v from "valibot";
import { finite, object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import type { RestarterDeps } from "./workload.ts";

/** One restart of a workload in the last 24 hours. */
export interface Restart {
  /** When it began, by the wall clock of the leader: the value of `switchback.dev/restartedAt`. */
  readonly at: number;
  /** The same time by the monotonic clock of this process. */
  readonly begun: number;
  /**
   * The namespaces whose names caused it, sorted; "" for names whose namespace is not known. Empty: somebody else
   * restarted the workload.
   */
  readonly by: readonly string[];
}

export const DAY_MS = 86_400_000;
/** The version of the annotation's format. */
const VERSION = 1;
/** Maximum numbers of restarts and of namespaces of one restart in a record. The owner of a workload may write it. */
const MAX_RESTARTS = 24;
const MAX_NAMESPACES = 20;

const restartSchema = object({
  at: v.string(),
  by: v.pipe(v.array(v.pipe(v.string(), v.maxLength(63))), v.maxLength(MAX_NAMESPACES)),
});
const recordSchema = object({
  version: v.pipe(finite, v.value(VERSION)),
  restarts: v.pipe(v.array(restartSchema), v.maxLength(MAX_RESTARTS)),
});

/** The value of the annotation on the pod template. */
export function stamp(at: number): string {
  return new Date(at).toISOString();
}

/** The value of the annotation `switchback.dev/restarts`. */
export function encodeRecord(restarts: readonly Restart[]): string {
  const recorded = restarts
    .slice(-MAX_RESTARTS)
    .map(({ at, by }) => ({ at: stamp(at), by: by.slice(0, MAX_NAMESPACES) }));
  return JSON.stringify({ version: VERSION, restarts: recorded });
}

/**
 * Reads the annotation. A text of somebody else, or of a later release, counts as if it was removed: the leader's
 * memory remains.
 */
export function decodeRecord(text: string | undefined): ReadonlyArray<Pick<Restart, "at" | "by">> {
  if (text === undefined) return [];
  try {
    return parse(recordSchema, JSON.parse(text)).restarts.map(({ at, by }) => ({ at: timeOf(at), by }));
  } catch {
    return [];
  }
}

/** The time of a stamp. NaN: it has none, or a forged one. After the year 9999 there is no later stamp. */
function timeOf(text: string | undefined): number {
  const at = Date.parse(text ?? "");
  return at < Date.parse("9999-01-01T00:00:00Z") ? at : Number.NaN;
}

/**
 * The restarts of each workload in the last 24 hours: those of its annotation and those that this leader remembers,
 * because the owner may remove the annotation. The first look at a time of the annotation fixes its age. From then on,
 * a jump of the wall clock changes nothing. A time in the future has the age 0.
 */
export function restartRecords({ now, wallClock }: Pick<RestarterDeps, "now" | "wallClock">) {
  /** By the workload's uid, oldest first. */
  const known = new Map<string, readonly Restart[]>();
  return {
    /** The restarts of a workload that was read, oldest first. A later restart by somebody else starts a new record. */
    of({ uid, restarts, restartedAt }: Pick<WorkloadState, "uid" | "restarts" | "restartedAt">): readonly Restart[] {
      const since = now() - DAY_MS;
      for (const [each, all] of known) if ((all.at(-1)?.begun ?? 0) <= since) known.delete(each);
      const found = [...(known.get(uid) ?? [])];
      const stored = [...decodeRecord(restarts), { at: timeOf(restartedAt), by: [] }];
      for (const { at, by } of stored.filter((each) => Number.isFinite(each.at))) {
        const isNews = by.length === 0 ? found.every((each) => at > each.at) : found.every((each) => at !== each.at);
        const begun = now() - Math.max(0, wallClock() - at);
        if (isNews) found.push({ at, begun, by });
      }
      const anew = Math.max(0, ...found.filter(({ by }) => by.length === 0).map(({ at }) => at));
      const recent = found.filter(({ at, begun }) => at >= anew && begun > since).sort((one, two) => one.at - two.at);
      known.set(uid, recent);
      return recent;
    },

    /** A restart that begins now. Its stamp is later than any that the template has had. */
    next(restarts: readonly Restart[], by: readonly string[]): Restart {
      return { at: Math.max(wallClock(), (restarts.at(-1)?.at ?? 0) + 1), begun: now(), by };
    },

    /** Remembers the restarts of a workload. */
    set: (uid: string, restarts: readonly Restart[]) => known.set(uid, restarts),
  };
}
