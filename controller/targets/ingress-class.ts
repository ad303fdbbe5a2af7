import type { Reason } from "#hostmap/types.ts";
import type { TargetConfig } from "#lib/config/schema.ts";

/**
 * Returns the target that lists an ingress class, or the reason why no target does. `className` is the class of the
 * object, or the cluster's default.
 */
export function targetOfClass(className: string | undefined, targets: readonly TargetConfig[]): string | Reason {
  if (className === undefined) {
    return { code: "no-class", text: "it names no ingress class and the cluster has no default IngressClass" };
  }
  const target = targets.find(({ classes }) => classes.includes(className));
  if (target !== undefined) return target.name;
  const known = targets.flatMap(({ classes }) => classes);
  const accepted = known.length === 0 ? "no target lists any class" : `the targets list ${known.join(", ")}`;
  return { code: "no-target", text: `no target serves the ingress class ${JSON.stringify(className)}; ${accepted}` };
}
