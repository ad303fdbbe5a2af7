import type { RemovalRules } from "#hostmap/published-names.ts";
import type { Config } from "#lib/config/schema.ts";

/** The removal rules of a config, in milliseconds. */
export function removalRules({ map }: Pick<Config, "map">): RemovalRules {
  return { vanishMs: map.vanishSeconds * 1000, guardNames: map.guardNames, holdMs: map.guardHoldSeconds * 1000 };
}
