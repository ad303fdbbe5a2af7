import type { EvaluatedClaim } from "./claim-policy.ts";

/** Names with undecided claims. Also tracks the names whose last undecided claim was decided since the last call. */
export class PendingNames {
  /** The number of undecided claims, by name. */
  readonly #claims = new Map<string, number>();
  #decided = new Set<string>();

  has(name: string): boolean {
    return this.#claims.has(name);
  }

  add(name: string): void {
    this.#claims.set(name, (this.#claims.get(name) ?? 0) + 1);
    this.#decided.delete(name);
  }

  remove(name: string): void {
    const left = (this.#claims.get(name) ?? 0) - 1;
    if (left > 0) {
      this.#claims.set(name, left);
      return;
    }
    this.#claims.delete(name);
    this.#decided.add(name);
  }

  takeDecided(): ReadonlySet<string> {
    const decided = this.#decided;
    if (decided.size > 0) this.#decided = new Set();
    return decided;
  }
}

/** Returns the target that an undecided claim may get later. A claim that another check refuses gets none. */
export function pendingTarget({ claim, refused }: EvaluatedClaim): string | undefined {
  return refused === claim.target ? claim.pending : undefined;
}

/** Whether the claim is undecided. */
export function isUndecided(evaluated: EvaluatedClaim): boolean {
  return pendingTarget(evaluated) !== undefined;
}

/** Whether the claim counts in its namespace's quota. */
export function isRanked(evaluated: EvaluatedClaim): boolean {
  return evaluated.refused === undefined || isUndecided(evaluated);
}

/** Returns the target that a refused claim may still get, because its decision may change. */
export function candidateTarget({ claim, refused }: EvaluatedClaim): string | undefined {
  return refused === claim.target ? claim.candidate : undefined;
}
