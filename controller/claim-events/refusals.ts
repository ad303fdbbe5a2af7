import type { Plan } from "#hostmap/plan.ts";
import type { ObjectRef, Reason } from "#hostmap/types.ts";
import { adviceOn } from "./advice.ts";

/** Reason codes by name, for names that are not mapped or that lose a port. */
export type Refusals = ReadonlyMap<string, string>;

/** An object and its refused names. */
export interface RefusedObject {
  readonly from: ObjectRef;
  /** creationTimestamp of the object. */
  readonly since: string;
  readonly refusals: Refusals;
}

/** The reason code of a name that the owner chose to ignore. */
const CHOSEN = "ignored";

/** Returns undefined if the object is gone. */
export function refusedOf(plan: Pick<Plan, "decisionsOf" | "planned">, object: string): RefusedObject | undefined {
  const refusals = new Map<string, string>();
  const mapped = new Map<string, Reason | undefined>();
  let first: Omit<RefusedObject, "refusals"> | undefined;
  for (const { name, from, since, decision, warning } of plan.decisionsOf(object)) {
    first ??= { from, since };
    // An object may claim a name twice, for two targets.
    if (decision.mapped) mapped.set(name, warning);
    else if (decision.reason.code !== CHOSEN) refusals.set(name, decision.reason.code);
  }
  for (const name of mapped.keys()) refusals.delete(name);
  // A mapped name may stay until new evidence decides.
  for (const name of refusals.keys()) if (isOf(plan.planned.get(name)?.from, first?.from)) refusals.delete(name);
  for (const [name, warning] of mapped) if (isReported(warning)) refusals.set(name, warning.code);
  return first && { ...first, refusals };
}

/** Most warnings are for the administrator of the cluster, not for the owner. */
function isReported(warning: Reason | undefined): warning is Reason {
  return warning !== undefined && adviceOn(warning.code).mapped === true;
}

function isOf(one: ObjectRef | undefined, other: ObjectRef | undefined): boolean {
  return one?.namespace === other?.namespace && one?.name === other?.name && one?.kind === other?.kind;
}

/**
 * The refusals that the owner of each object already knows from an Event, or that existed when this leader began.
 * Stored as pairs of name and code, because a Map per object would take several times as much memory.
 */
export class KnownRefusals {
  readonly #pairs = new Map<string, readonly string[]>();

  /** Returns the known part of the refusals. */
  knownOf(object: string, refusals: Refusals): Refusals {
    const known = new Map<string, string>();
    const pairs = this.#pairs.get(object) ?? [];
    for (let index = 0; index < pairs.length; index += 2) {
      const [name = "", code = ""] = [pairs[index], pairs[index + 1]];
      if (refusals.get(name) === code) known.set(name, code);
    }
    return known;
  }

  set(object: string, refusals: Refusals): void {
    if (refusals.size === 0) this.#pairs.delete(object);
    else this.#pairs.set(object, [...refusals].flat());
  }

  delete(object: string): void {
    this.#pairs.delete(object);
  }

  get size(): number {
    return this.#pairs.size;
  }
}
