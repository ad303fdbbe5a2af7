import * as v from "valibot";
import { finite, object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import type { WorkloadState } from "#lib/workloads/workload-state.ts";

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

const recordSchema = object({
  version: v.pipe(finite, v.value(VERSION)),
  restarts: v.array(object({ at: v.string(), by: v.array(v.pipe(v.string(), v.maxLength(63))) })),
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
    const { restarts } = parse(recordSchema, JSON.parse(text));
    const known = restarts.map(({ at, by }) => ({ at: timeOf(at), by: by.slice(0, MAX_NAMESPACES) }));
    return known.slice(-MAX_RESTARTS);
  } catch {
    return [];
  }
}

/** Later times are forged: they have no later stamp. */
const LATEST = Date.parse("9999-01-01T00:00:00Z");

/** The time of a stamp. NaN: it has none. */
function timeOf(text: string | undefined): number {
  const at = Date.parse(text ?? "");
  return at < LATEST ? at : Number.NaN;
}

/**
 * The restarts of each workload in the last 24 hours: those of its annotation and those that this leader remembers,
 * because the owner may remove the annotation. The first look at a time of the annotation fixes its age. From then on,
 * a jump of the wall clock changes nothing. A time in the future has the age 0.
 */
export class RestartRecords {
  readonly #now: () => number;
  readonly #wallClock: () => number;
  /** By the workload's uid, oldest first. */
  readonly #known = new Map<string, readonly Restart[]>();

  /** Both clocks return milliseconds. */
  constructor(now: () => number, wallClock: () => number) {
    this.#now = now;
    this.#wallClock = wallClock;
  }

  /** The restarts of a workload that was read, oldest first. A later restart by somebody else starts a new record. */
  of({ uid, restarts, restartedAt }: Pick<WorkloadState, "uid" | "restarts" | "restartedAt">): readonly Restart[] {
    const known = [...(this.#known.get(uid) ?? [])];
    const other = { at: timeOf(restartedAt), by: [] };
    for (const { at, by } of [...decodeRecord(restarts), other]) {
      const isNews = by.length === 0 ? known.every((each) => at > each.at) : known.every((each) => at !== each.at);
      const begun = this.#now() - Math.max(0, this.#wallClock() - at);
      if (isNews && Number.isFinite(at)) known.push({ at, begun, by });
    }
    const anew = Math.max(0, ...known.filter(({ by }) => by.length === 0).map(({ at }) => at));
    return this.#keep(
      uid,
      known.filter(({ at }) => at >= anew),
    );
  }

  /** Adds a restart that begins now. Its stamp is later than any that the template has had. */
  next(restarts: readonly Restart[], by: readonly string[]): Restart {
    const last = restarts.at(-1)?.at ?? 0;
    return { at: Math.max(this.#wallClock(), last + 1), begun: this.#now(), by };
  }

  /** Remembers a restart that was sent, and forgets those of others that are a day old. */
  add(uid: string, restarts: readonly Restart[]): void {
    this.#known.set(uid, restarts);
    for (const [each, known] of this.#known) this.#keep(each, known);
  }

  /** Number of restarts in the last `ms`. */
  count(ms: number): number {
    const since = this.#now() - ms;
    return [...this.#known.values()].flat().filter(({ begun, by }) => by.length > 0 && begun > since).length;
  }

  #keep(uid: string, restarts: readonly Restart[]): readonly Restart[] {
    const since = this.#now() - DAY_MS;
    const recent = restarts.filter(({ begun }) => begun > since).sort((one, other) => one.at - other.at);
    if (recent.length > 0) this.#known.set(uid, recent);
    else this.#known.delete(uid);
    return recent;
  }
}
