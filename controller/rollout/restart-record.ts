import * as v from "valibot";
import { MAX_DAILY_BUDGET } from "#lib/config/defaults.ts";
import { finite, object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";
import type { RestarterDeps, Workload } from "./workload.ts";

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
  /**
   * What its new pods should get: `Workload.to`. Undefined: a webhook replica may still have had an earlier map, so
   * these pods prove nothing.
   */
  readonly to: string | undefined;
}

export const DAY_MS = 86_400_000;
/** The version of the annotation's format. */
const VERSION = 1;
/** Maximum number of namespaces of one restart in a record. The owner of a workload may write it. */
const MAX_NAMESPACES = 20;
/** By then, every webhook replica has the published map: they load it within a second. */
const LOADED_MS = 25_000;

const restartSchema = object({
  at: v.string(),
  by: v.pipe(v.array(v.pipe(v.string(), v.maxLength(63))), v.maxLength(MAX_NAMESPACES)),
  to: v.optional(v.pipe(v.string(), v.maxLength(63))),
});
const recordSchema = object({
  version: v.pipe(finite, v.value(VERSION)),
  restarts: v.pipe(v.array(restartSchema), v.maxLength(MAX_DAILY_BUDGET)),
});

/** The value of the annotation on the pod template. */
export function stamp(at: number): string {
  return new Date(at).toISOString();
}

/** The value of the annotation `switchback.dev/restarts`. */
export function encodeRecord(restarts: readonly Restart[]): string {
  const recorded = restarts.slice(-MAX_DAILY_BUDGET).map(({ at, by, to }) => ({ at: stamp(at), by, to }));
  return JSON.stringify({ version: VERSION, restarts: recorded });
}

/** Reads the annotation. A text of somebody else, or of a later release, counts as if it was removed. */
export function decodeRecord(text: string | undefined): ReadonlyArray<Omit<Restart, "begun">> {
  if (text === undefined) return [];
  try {
    return parse(recordSchema, JSON.parse(text)).restarts.map(({ at, by, to }) => ({ at: Date.parse(at), by, to }));
  } catch {
    return [];
  }
}

/**
 * The restarts of each workload in the last 24 hours: those of its annotation, and those that this leader remembers,
 * because the owner may remove the annotation. The wall clock is read once for their ages: a later jump changes
 * nothing. A time in the future has the age 0. A time more than a day ahead is no time of a restart.
 */
export function restartRecords({ now, wallClock }: Pick<RestarterDeps, "now" | "wallClock">) {
  const ahead = wallClock() - now();
  /** Only what this leader has sent or followed: owners can forge any number of annotations. */
  let known: ReadonlyArray<Restart & { readonly uid: string }> = [];
  return {
    /** The restarts of a workload that was read, oldest first. A later restart by somebody else starts a new record. */
    of({ uid, restarts, restartedAt }: Pick<WorkloadState, "uid" | "restarts" | "restartedAt">): readonly Restart[] {
      const found: Restart[] = known.filter((each) => each.uid === uid);
      const template = { at: Date.parse(restartedAt ?? ""), by: [], to: undefined };
      for (const { at, by, to } of [...decodeRecord(restarts), template]) {
        const isNews = by.length === 0 ? found.every((each) => at > each.at) : found.every((each) => at !== each.at);
        if (isNews && at - ahead < now() + DAY_MS) found.push({ at, begun: Math.min(now(), at - ahead), by, to });
      }
      const first = found.sort((one, two) => one.at - two.at).findLastIndex(({ by }) => by.length === 0);
      return found.slice(Math.max(0, first)).filter(({ begun }) => begun > now() - DAY_MS);
    },

    /** A restart that begins now. Its stamp is later than any that the template has had. */
    next(restarts: readonly Restart[], by: readonly string[], { to, since }: Pick<Workload, "to" | "since">): Restart {
      const at = Math.max(wallClock(), (restarts.at(-1)?.at ?? 0) + 1);
      const isLoaded = now() >= since + LOADED_MS;
      return { at, begun: now(), by: by.slice(0, MAX_NAMESPACES), to: isLoaded ? to : undefined };
    },

    /** Remembers a restart for a day. Returns whether it is news. */
    remember(uid: string, restart: Restart): boolean {
      const isNews = known.every((each) => each.uid !== uid || each.at !== restart.at);
      const recent = known.filter(({ begun }) => begun > now() - DAY_MS);
      if (isNews) known = [...recent, { ...restart, uid }];
      return isNews;
    },
  };
}
