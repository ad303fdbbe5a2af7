import { show } from "#hostmap/hostnames.ts";
import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { ChosenTarget, RoutingHints } from "../sources/types.ts";
import type { TargetResolver } from "./resolver.ts";

interface ChoiceConfig {
  readonly targets: ReadonlyArray<{ readonly name: string }>;
  readonly policy: Pick<Config["policy"], "targets">;
}

const ALL = "*";
/** Maximum number of names in a reason. */
const LISTED = 8;

/**
 * The target that an object chooses, if `policy.targets` allows that to its namespace. If the choice is not possible,
 * the names get no target, because another target is not what the owner asked for.
 */
export function chosenTarget(
  chosen: ChosenTarget,
  hints: RoutingHints,
  resolver: Pick<TargetResolver, "named">,
  { targets, policy }: ChoiceConfig,
): string | Reason {
  const allowed = choicesOf(policy.targets, chosen.namespace);
  if (!allowed.has(ALL) && !allowed.has(chosen.target)) return notAllowed(chosen, allowed);
  return resolver.named(chosen.target, hints) ?? unknown(chosen, allowed, targets);
}

/** The names that a namespace may choose; `*` is all. */
function choicesOf(rules: ChoiceConfig["policy"]["targets"], namespace: string): ReadonlySet<string> {
  const ofNamespace = rules.filter(({ namespaces }) => namespaces.includes(ALL) || namespaces.includes(namespace));
  return new Set(ofNamespace.flatMap(({ targets }) => targets));
}

/**
 * The text is the same whether the target exists or not. Only a namespace that may choose a target learns whether it
 * exists.
 */
function notAllowed({ target, namespace }: ChosenTarget, allowed: ReadonlySet<string>): Reason {
  const accepted = allowed.size === 0 ? "it may choose no target" : `accepted are ${list([...allowed])}`;
  const text = `the namespace ${namespace} may not choose the target ${show(target)} by ${TARGET_KEY}; ${accepted}`;
  return { code: "target-not-allowed", text: `${text} (policy.targets)` };
}

/**
 * The text does not list discovered targets, because their names are those of Services, which may belong to other
 * tenants.
 */
function unknown({ target }: ChosenTarget, allowed: ReadonlySet<string>, targets: ChoiceConfig["targets"]): Reason {
  const names = allowed.has(ALL) ? targets.map(({ name }) => name) : [...allowed];
  const discovered = allowed.has(ALL) ? ", and discovered targets" : "";
  const accepted = names.length === 0 ? "discovered targets" : `${list(names)}${discovered}`;
  return {
    code: "target-unknown",
    text: `there is no target ${show(target)} (${TARGET_KEY}); accepted are ${accepted}`,
  };
}

function list(names: readonly string[]): string {
  return listSome(names, LISTED, String);
}
