import * as v from "valibot";
import type { Reason } from "#hostmap/types.ts";
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
  version: finite,
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

/** Later times are forged: they have no later stamp. */
const LATEST = Date.parse("9999-01-01T00:00:00Z");

type Recorded = ReadonlyArray<Pick<Restart, "at" | "by">>;

/** Reads the annotation. A Reason: somebody else wrote it, or a later release. */
export function decodeRecord(text: string | undefined): Recorded | Reason {
  if (text === undefined) return [];
  try {
    const { version, restarts } = parse(recordSchema, JSON.parse(text));
    if (version !== VERSION) throw new Error(`version ${version}`);
    const known = restarts.map(({ at, by }) => ({ at: Date.parse(at), by: by.slice(0, MAX_NAMESPACES) }));
    return known.filter(({ at }) => at < LATEST).slice(-MAX_RESTARTS);
  } catch {
    const reason = "this release cannot read its annotation switchback.dev/restarts: remove it";
    return { code: "budget-spent", text: reason };
  }
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
  of({ uid, restarts: text, restartedAt }: Pick<WorkloadState, "uid" | "restarts" | "restartedAt">) {
    const recorded = decodeRecord(text);
    if (!Array.isArray(recorded)) return recorded as Reason;
    const known = [...(this.#known.get(uid) ?? [])];
    for (const { at, by } of recorded as Recorded) {
      if (!known.some((each) => each.at === at)) known.push({ at, by, begun: this.#begunAt(at) });
    }
    const other = Date.parse(restartedAt ?? "");
    const last = known.reduce((latest, { at }) => Math.max(latest, at), Number.NEGATIVE_INFINITY);
    if (other > last && other < LATEST) known.push({ at: other, by: [], begun: this.#begunAt(other) });
    const anew = known.reduce((latest, { at, by }) => (by.length === 0 ? Math.max(latest, at) : latest), 0);
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
    let count = 0;
    for (const restarts of this.#known.values())
      count += restarts.filter(({ begun, by }) => by.length > 0 && begun > since).length;
    return count;
  }

  #begunAt(at: number): number {
    return this.#now() - Math.max(0, this.#wallClock() - at);
  }

  #keep(uid: string, restarts: readonly Restart[]): readonly Restart[] {
    const since = this.#now() - DAY_MS;
    const recent = restarts.filter(({ begun }) => begun > since).sort((one, other) => one.at - other.at);
    if (recent.length > 0) this.#known.set(uid, recent);
    else this.#known.delete(uid);
    return recent;
  }
}
