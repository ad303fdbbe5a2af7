import type { Reason } from "#hostmap/types.ts";
import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import type { Config, TargetConfig } from "#lib/config/schema.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import { HTTP_PORTS, portOf, type ServicePort, type ServiceView } from "./service-view.ts";

type TargetPort = TargetConfig["ports"][number] &
  Partial<Pick<ServicePort, "stated" | "says">> & {
    /** Set if another Service at the same address lends the port: the ClusterIPs of that Service. */
    readonly upstreamIPs?: readonly string[];
  };

/** A configured or discovered target. Ports have `stated` if the ingress controller is asked. */
export interface Target extends TargetConfig {
  readonly ports: TargetPort[];
  /** The ClusterIPs of a configured target's Service, if they are known. */
  readonly serviceIPs?: readonly string[];
  /**
   * Set for each discovered target: the ClusterIPs of its Service. The proxies relay only to these addresses, because a
   * tenant chooses what the name of its Service resolves to.
   */
  readonly upstreamIPs?: readonly string[];
}

/**
 * A configured target. With `detect`, the annotations of its Service apply to ports of protocol `auto`. Without it,
 * such ports are v1.
 */
export function configuredTarget(
  target: TargetConfig,
  { detect }: Pick<Config["discovery"], "detect">,
  service: ServiceView | undefined,
): Target {
  const ports = target.ports.map((each): TargetPort => {
    if (each.protocol !== "auto") return each;
    if (!detect) return { ...each, protocol: "v1" };
    const { upstreamPort = each.port } = each;
    const { protocol, stated, says } = (service && portOf(service, upstreamPort)) ?? {};
    if (protocol === undefined || stated === undefined || stated === "nobody") return { ...each, stated: "nobody" };
    return { ...each, protocol, stated, ...(says && { says }) };
  });
  return { ...target, ports, ...(service && { serviceIPs: service.clusterIPs }) };
}

/** The discovered target of a Service, or the reason why it cannot be one. */
export function targetOfService({ namespace, name, target, ports, clusterIPs }: ServiceView): Target | Reason {
  if (ports.length === 0)
    return { code: "service-without-port", text: `the Service ${namespace}/${name} has no TCP port` };
  const upstream = { service: { namespace, name } };
  return { name: target, upstream, upstreamIPs: clusterIPs, classes: [], ports: [...ports], clusterIPs: [] };
}

/**
 * The target, with the ports of HTTP and HTTPS that its own Service lacks and another one has at the same address.
 * Services may split the ports of one address (MetalLB shares it on request), and kube-proxy leads each port to the
 * Service that has it. Other ports do not count, because in k3s the Services of all tenants have the addresses of the
 * nodes. `lenderOf` returns the Service that has a port at an address of this one.
 */
export function withBorrowedPorts(target: Target, lenderOf: (port: number) => ServiceView | undefined): Target {
  const borrowed = HTTP_PORTS.flatMap((port) => {
    if (target.ports.some((each) => each.port === port)) return [];
    const lender = lenderOf(port);
    const entry = lender && portOf(lender, port);
    return lender && entry ? [{ ...entry, upstreamIPs: lender.clusterIPs }] : [];
  });
  return { ...target, ports: [...target.ports, ...borrowed].slice(0, MAX_TARGET_PORTS) };
}

/**
 * Reports which port of HTTP or HTTPS the names of an object lose when they are mapped: a port of the object that the
 * target does not have. Another server may serve that port at the public address. The proxy does not relay to it,
 * because a tenant who writes `externalIPs` could then choose the address that the proxy connects to. `ports` are those
 * of the object.
 */
export function lostPorts(target: Target, ports: readonly number[] = HTTP_PORTS): Reason | undefined {
  // Names map to the Service itself, or to configured addresses of which nothing else is known.
  if (!isRelayed(target) && target.upstreamIPs === undefined) return undefined;
  const lost = HTTP_PORTS.filter((port) => ports.includes(port) && target.ports.every((each) => each.port !== port));
  if (lost.length === 0) return undefined;
  const list = lost.join(" and ");
  const text = `its target ${target.name} has no port ${list}: pods lose what answers there at its public address`;
  return { code: "port-lost", text };
}
