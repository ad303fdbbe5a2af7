import type { Reason } from "#hostmap/types.ts";
import type { TargetConfig } from "#lib/config/schema.ts";

/** Why no target lists an ingress class. `className` is the class of the object, or the cluster's default. */
export function noTargetOf(className: string | undefined, targets: readonly TargetConfig[]): Reason {
  if (className === undefined) {
    return { code: "no-class", text: "it names no ingress class and the cluster has no default IngressClass" };
  }
  const known = targets.flatMap(({ classes }) => classes);
  const accepted = known.length === 0 ? "no target lists any class" : `the targets list ${known.join(", ")}`;
  return { code: "no-target", text: `no target serves the ingress class ${JSON.stringify(className)}; ${accepted}` };
}
