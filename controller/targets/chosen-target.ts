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
 * The target that an object chooses, if `policy.targets` allows that to its namespace. If the choice is not possible,
 * the names get no target, because another target is not what the owner asked for. The text is the same whether the
 * target exists or not: only a namespace that may choose a target learns whether it exists. It does not list discovered
 * targets, because their names are those of Services, which may belong to other tenants.
 */
export function chosenTarget(
  { target, namespace }: ChosenTarget,
  resolver: Pick<TargetResolver, "named">,
  { targets, policy }: ChoiceConfig,
): string | Reason {
  const ofNamespace = policy.targets.filter(
    ({ namespaces }) => namespaces.includes(ALL) || namespaces.includes(namespace),
  );
  const allowed = new Set(ofNamespace.flatMap((rule) => rule.targets));
  const isAllowed = allowed.has(ALL) || allowed.has(target);
  const found = isAllowed ? resolver.named(target) : undefined;
  if (found !== undefined) return found;
  const named = allowed.has(ALL) ? [...targets.map(({ name }) => name), "discovered targets"] : [...allowed];
  const accepted = named.length === 0 ? "it may choose no target" : `it may choose ${listSome(named, LISTED, String)}`;
  const why = isAllowed ? `there is no target ${show(target)}` : `the target ${show(target)} is not allowed`;
  const text = `${why} (${TARGET_KEY} in the namespace ${namespace}); ${accepted} (policy.targets)`;
  return { code: "target-not-allowed", text };
}
