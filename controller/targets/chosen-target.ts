import { show } from "#hostmap/hostnames.ts";
import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { ChosenTarget } from "../sources/types.ts";
import type { TargetResolver } from "./resolver.ts";

interface ChoiceConfig {
  readonly targets: ReadonlyArray<{ readonly name: string }>;
  readonly policy: Pick<Config["policy"], "targets">;
}

const ALL = "*";
/** Maximum number of names in a reason. */
const LISTED = 8;

/**
 * Gives an object the target that it chooses, if `policy.targets` allows that to its namespace. If the choice is not
 * possible, the names get no target, because another target is not what the owner asked for.
 */
export function withChoices(resolver: TargetResolver, { targets, policy }: ChoiceConfig): TargetResolver {
  const allowedTo = choicesOf(policy.targets);
  const resolveChoice = (chosen: ChosenTarget, named: (target: string) => string | Reason | undefined) => {
    const allowed = allowedTo(chosen.namespace);
    if (!allowed.has(ALL) && !allowed.has(chosen.target)) return notAllowed(chosen, allowed);
    return named(chosen.target) ?? unknown(chosen, allowed, targets);
  };
  return {
    start: (onChange, onSynced) => resolver.start(onChange, onSynced),
    resolve: (hints, incumbent) =>
      hints.chosen === undefined
        ? resolver.resolve(hints, incumbent)
        : resolveChoice(hints.chosen, (target) => resolver.named(target, hints)),
    named: (target, hints) => resolver.named(target, hints),
    warningOf: (target, ports) => resolver.warningOf?.(target, ports),
    mayKeep: (target, hints, reason) => resolver.mayKeep?.(target, hints, reason) === true,
    state: () => resolver.state(),
    stop: () => resolver.stop(),
  };
}

/** Returns the names that a namespace may choose; `*` is all. */
function choicesOf(rules: ChoiceConfig["policy"]["targets"]): (namespace: string) => ReadonlySet<string> {
  const byNamespace = new Map<string, Set<string>>();
  for (const { namespaces, targets } of rules) {
    for (const namespace of namespaces) {
      byNamespace.set(namespace, new Set([...(byNamespace.get(namespace) ?? []), ...targets]));
    }
  }
  const forAll = byNamespace.get(ALL) ?? new Set();
  return (namespace) => {
    const own = byNamespace.get(namespace);
    return own === undefined ? forAll : new Set([...own, ...forAll]);
  };
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
