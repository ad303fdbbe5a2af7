import type { Claim, Reason } from "./types.ts";

/** Code of the warning about a kept name. */
export const KEPT = "kept";

/**
 * Names that stay mapped although their objects no longer have evidence of their target. Such a claim counts only
 * while its name is mapped to that target. It cannot take over a name, and cannot take one back.
 */
export class KeptNames {
  /** Names that an earlier leader published and that are not planned yet, each with its target. */
  readonly #published = new Map<string, string>();

  /** Stores the published names when a new leader starts. */
  resume(published: ReadonlyMap<string, string>): void {
    for (const [name, target] of published) this.#published.set(name, target);
  }

  /** Whether a claim counts. A claim with evidence always counts. `planned` is the current plan of its name. */
  counts(name: string, { kept, target, verified }: Claim, planned: { readonly target: string } | undefined): boolean {
    if (kept === undefined || verified) return true;
    return (planned?.target ?? this.#published.get(name)) === target;
  }

  /** Forgets the earlier publication of all names that are decided. */
  settle(isPending: (name: string) => boolean): void {
    for (const name of this.#published.keys()) if (!isPending(name)) this.#published.delete(name);
  }
}

/** Returns the warning of the status about a kept name. */
export function keptWarning({ code, text }: Reason): Reason {
  return { code: KEPT, text: `it stays mapped, and a fresh install would not map it: ${text} (${code})` };
}
