import type { Reason } from "#hostmap/types.ts";
import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import { type FoundTarget, HTTP_PORTS, portOf, type ServiceView } from "./service-view.ts";

/**
 * The target, with the ports of HTTP and HTTPS that its own Service lacks and another one has at the same address.
 * Services may split the ports of one address (MetalLB shares it on request), and kube-proxy leads each port to the
 * Service that has it. Other ports do not count, because in k3s the Services of all tenants have the addresses of the
 * nodes. `lenderOf` returns the Service that has a port at an address of this one.
 */
export function withBorrowedPorts(
  target: FoundTarget,
  view: ServiceView,
  lenderOf: (port: number) => ServiceView | undefined,
): FoundTarget {
  const borrowed = HTTP_PORTS.flatMap((port) => {
    if (portOf(view, port) !== undefined) return [];
    const lender = lenderOf(port);
    const entry = lender && portOf(lender, port);
    return lender && entry ? [{ ...entry, upstreamIPs: lender.clusterIPs }] : [];
  });
  if (borrowed.length === 0) return target;
  const ports = [...target.ports, ...borrowed].slice(0, MAX_TARGET_PORTS);
  // Relay the target with any protocol, because the ClusterIPs of its own Service lack these ports.
  return { ...target, ports, clusterIPs: [] };
}

/**
 * Reports which port of HTTP or HTTPS the names of an object lose when they are mapped: a port of the object that the
 * target does not have. Another server may serve that port at the public address. The proxy does not relay to it,
 * because a tenant who writes `externalIPs` could then choose the address that the proxy connects to. `ports` are those
 * of the object.
 */
export function lostPorts(
  target: TargetConfig | FoundTarget,
  ports: readonly number[] = HTTP_PORTS,
): Reason | undefined {
  // Names map to the Service itself, or to configured addresses of which nothing else is known.
  if (!isRelayed(target) && !("upstreamIPs" in target)) return undefined;
  const lost = HTTP_PORTS.filter((port) => ports.includes(port) && target.ports.every((each) => each.port !== port));
  if (lost.length === 0) return undefined;
  const list = lost.join(" and ");
  const text = `its target ${target.name} has no port ${list}: pods lose what answers there at its public address`;
  return { code: "port-lost", text };
}
