import type { TargetConfig } from "../../config/schema.ts";
import type { Reason } from "../../hostmap/types.ts";

/**
 * The target that serves an ingress class, or why there is none. `className` is what the object or the cluster's default says.
 * A target that lists no classes takes everything, but only while it is alone: with two, a guess could send traffic astray.
 */
export function targetOfClass(className: string | undefined, targets: readonly TargetConfig[]): string | Reason {
  const [only] = targets;
  if (only !== undefined && targets.length === 1 && only.classes.length === 0) return only.name;
  if (className === undefined) {
    return { code: "no-class", text: "it names no ingress class and the cluster has no default IngressClass" };
  }
  const target = targets.find(({ classes }) => classes.includes(className));
  if (target !== undefined) return target.name;
  const known = targets.flatMap(({ classes }) => classes);
  const accepted = known.length === 0 ? "no target lists any class" : `the targets list ${known.join(", ")}`;
  return { code: "no-target", text: `no target serves the ingress class ${JSON.stringify(className)}; ${accepted}` };
}
