import { ClaimBudget } from "#controller/sources/claim-budget.ts";

/** A plan without names. */
export const NOBODY = { planned: new Map(), lineOf: () => undefined };

/** A budget with room for every claim of a test. */
export function ample(): ClaimBudget {
  return new ClaimBudget({ maxNamesPerNamespace: 1_000_000, total: 1_000_000, plan: NOBODY });
}
