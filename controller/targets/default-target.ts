import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import type { RoutingHints } from "../sources/types.ts";
import { softwareNamed } from "./known-software.ts";
import { MAY_BE_A_NODE } from "./node-address.ts";
import { literalsOf } from "./service-view.ts";

/** Facts about the Service of the configured target without classes. */
interface DefaultTarget {
  readonly target: TargetConfig;
  /** Title of the ingress controller behind it, if known. */
  readonly software: string | undefined;
  /** Whether it is known that no Service has the addresses of the object. */
  readonly readsAddresses: boolean;
}

/** The configured target without classes. The checks of the configuration ensure that it is the only target. */
export function defaultAmong(targets: readonly TargetConfig[]): TargetConfig | undefined {
  const [only] = targets;
  return targets.length === 1 && only?.classes.length === 0 ? only : undefined;
}

export function targetMissing({ name, upstream }: TargetConfig): Reason {
  const where = "service" in upstream ? `${upstream.service.namespace}/${upstream.service.name}` : upstream.host;
  return { code: "target-missing", text: `the Service ${where} of the target ${name} does not exist` };
}

/**
 * Whether the configured target without classes serves an object for which no other target was found. It does so only
 * if nothing indicates another controller. Returns the target's name, or the reason why not.
 */
export function resolveDefault(
  hints: RoutingHints,
  { target, software, readsAddresses }: DefaultTarget,
): string | Reason {
  const { name, upstream } = target;
  const another = (text: string): Reason => ({
    code: "another-controller",
    text: `${text}, not of the target ${name}`,
  });
  const ips = literalsOf(hints.addresses);
  if (readsAddresses && "service" in upstream && ips.length > 0)
    return another(`its status has ${ips.join(", ")}, an address of no Service (${MAY_BE_A_NODE})`);
  const named = softwareNamed(hints);
  const what =
    hints.controller === undefined
      ? `its class ${show(hints.className ?? "")} is`
      : `its controller ${show(hints.controller)} is`;
  if (named === "outside") return another(`${what} of a load balancer outside the cluster`);
  if (software === undefined) return name;
  if (named === undefined && hints.className === undefined && hints.controller === undefined) return name;
  if (named === undefined) return another(`${what} not known to be of ${software}`);
  return named.has(software) ? name : another(`${what} of ${[...named].join(" or ")}`);
}
