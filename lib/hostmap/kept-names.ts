import type { Claim, Reason } from "./types.ts";

/** Code of the warning about a kept name. */
export const KEPT = "kept";

/**
 * Names that stay mapped although their objects have no evidence of their target any more. Such a claim counts only
 * while its name has that target: it takes no name, and takes none back.
 */
export class KeptNames {
  /** What an earlier leader published of names that are not planned yet: each with its target. */
  readonly #published = new Map<string, string>();

  /** A new leader begins with what is published. */
  resume(published: ReadonlyMap<string, string>): void {
    for (const [name, target] of published) this.#published.set(name, target);
  }

  /** Whether a claim counts; one with evidence does. `planned` is what its name has. */
  counts(name: string, { kept, target, verified }: Claim, planned: { readonly target: string } | undefined): boolean {
    if (kept === undefined || verified) return true;
    return (planned?.target ?? this.#published.get(name)) === target;
  }

  /** Forgets what was published of the names that are decided. */
  settle(isPending: (name: string) => boolean): void {
    for (const name of this.#published.keys()) if (!isPending(name)) this.#published.delete(name);
  }
}

/** What the status says of a kept name. */
export function keptWarning({ code, text }: Reason): Reason {
  return { code: KEPT, text: `it stays mapped, and a fresh install would not map it: ${text} (${code})` };
}
