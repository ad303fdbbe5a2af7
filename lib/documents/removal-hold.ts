import type { RemovalHold } from "#hostmap/removal-guard.ts";

/** Returns the text of the state's annotation for a held removal. */
export function renderHold(hold: RemovalHold): string {
  return JSON.stringify(hold);
}
