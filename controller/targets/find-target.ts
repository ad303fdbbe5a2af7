import type { Claim, Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { RoutingHints } from "../sources/types.ts";
import { chosenTarget } from "./chosen-target.ts";
import type { LackingEvidence } from "./missing-evidence.ts";
import type { TargetHeaders, TargetResolver } from "./resolver.ts";

/** What the hints of an object say about its target. See `Claim` for the fields. */
export type Found = Pick<Claim, "target" | "undecided" | "maybe" | "lacking" | "warning">;

export interface FindDeps {
  readonly resolver: Pick<TargetResolver, "resolve" | "named" | "warningOf" | "mayKeep">;
  readonly config: Pick<Config, "targets"> & { readonly policy: Pick<Config["policy"], "targets" | "requireAdmitted"> };
  /** Receives the ports that objects use. Undefined: no ingress controller is asked for a header. */
  readonly headers?: Pick<TargetHeaders, "want"> | undefined;
}

const NOT_ADMITTED: Reason = {
  code: "not-admitted",
  text: "no controller has admitted its object: it has no load balancer status (policy.requireAdmitted)",
};

/**
 * Finds the target of an object's names. `held` is the target that a name has now for the namespace of the object. The
 * name stays undecided if evidence for it is only missing. If several targets are possible, `held` counts.
 */
export function findTarget(hints: RoutingHints | Reason, held: string | undefined, deps: FindDeps): Found {
  if ("code" in hints) return { target: hints };
  const { resolver, headers } = deps;
  const { ports } = hints;
  const ofTarget = (target: string): Pick<Found, "warning"> => {
    if (ports !== undefined) headers?.want(target, ports);
    const warning = resolver.warningOf?.(target, ports);
    return warning === undefined ? {} : { warning };
  };
  const answer = byEvidence(hints, held, deps);
  if (typeof answer === "string") return { target: answer, ...ofTarget(answer) };
  const isLacking = "byClass" in answer;
  const lacking = { byClass: isLacking ? answer.byClass : undefined };
  const target: Reason = { code: answer.code, text: answer.text };
  if (held !== undefined && resolver.mayKeep?.(held, hints, target) === true)
    return { target, undecided: true, maybe: held, lacking, ...ofTarget(held) };
  return isLacking ? { target, lacking } : { target };
}

/** An error affects only objects with these hints. */
function byEvidence(
  hints: RoutingHints,
  held: string | undefined,
  { resolver, config }: FindDeps,
): string | LackingEvidence | Reason {
  // An Ingress that no controller serves may be a mistake, or an attack.
  if (config.policy.requireAdmitted && !hints.admitted) return NOT_ADMITTED;
  try {
    if (hints.chosen !== undefined) return chosenTarget(hints.chosen, resolver, config);
    return resolver.resolve(hints, held);
  } catch (error) {
    return { code: "target-failed", text: `its target could not be found: ${describeError(error)}` };
  }
}
