/** A container may write to its hosts file without end, and must not keep the agent busy: its looks are further and further apart. */
export interface ReadBackoff {
  /** How long to wait before the next look, milliseconds. */
  next(): number;
}

/** The kubelet empties a file and writes it at once: this much later it has. */
const FIRST_MS = 10;
const LONGEST_MS = 5_000;
/** After so long without a look it begins anew. */
const CALM_MS = 15_000;

export function createReadBackoff(now: () => number): ReadBackoff {
  let wait = FIRST_MS;
  let last = Number.NEGATIVE_INFINITY;
  return {
    next() {
      wait = now() - last > CALM_MS ? FIRST_MS : Math.min(wait * 2, LONGEST_MS);
      last = now();
      return wait;
    },
  };
}
