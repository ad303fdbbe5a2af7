import type { Config, TargetConfig } from "#lib/config/schema.ts";
import { type FoundTarget, portOf, type ServiceView } from "./service-view.ts";

/** A configured target. Ports of protocol `auto` have `stated` if the ingress controller is asked. */
export interface ConfiguredTarget extends TargetConfig {
  readonly ports: FoundTarget["ports"];
  /** The ClusterIPs of its Service, if they are known. */
  readonly serviceIPs?: readonly string[];
}

/** The configured target without classes. The checks of the configuration ensure that it is the only target. */
export function defaultAmong(targets: readonly TargetConfig[]): TargetConfig | undefined {
  const [only] = targets;
  return targets.length === 1 && only?.classes.length === 0 ? only : undefined;
}

/**
 * A configured target. With `detect`, the annotations of its Service apply to ports of protocol `auto`. Without it,
 * such ports are v1.
 */
export function configuredTarget(
  target: TargetConfig,
  { detect }: Pick<Config["discovery"], "detect">,
  service?: ServiceView,
): ConfiguredTarget {
  const addressed = { ...target, ...(service && { serviceIPs: service.clusterIPs }) };
  if (target.ports.every(({ protocol }) => protocol !== "auto")) return addressed;
  const ports = target.ports.map((port) => {
    if (port.protocol !== "auto") return port;
    return { ...port, ...(detect ? statedBy(service, port) : { protocol: "v1" as const }) };
  });
  return { ...addressed, ports };
}

function statedBy(service: ServiceView | undefined, { port, upstreamPort = port }: TargetConfig["ports"][number]) {
  const { protocol, stated = "nobody", says } = (service && portOf(service, upstreamPort)) ?? {};
  return {
    protocol: protocol === undefined || stated === "nobody" ? ("auto" as const) : protocol,
    stated,
    ...(says && { says }),
  };
}
