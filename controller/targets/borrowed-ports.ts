import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import { type AddressTable, oldestOf } from "./address-table.ts";
import { type FoundTarget, HTTP_PORTS, portOf, type ServiceView } from "./service-view.ts";

/**
 * The target, with the ports of HTTP and HTTPS that its own Service lacks and another one has at the same address.
 * Services may split the ports of one address (MetalLB shares it on request), and kube-proxy leads each port to the
 * Service that has it. Other ports do not count, because in k3s the Services of all tenants have the addresses of the
 * nodes.
 */
export function withBorrowedPorts(target: FoundTarget, view: ServiceView, table: AddressTable): FoundTarget {
  const borrowed = HTTP_PORTS.flatMap((port) => {
    if (portOf(view, port) !== undefined) return [];
    const lender = lenderOf(view, port, table);
    const entry = lender && portOf(lender, port);
    return lender && entry ? [{ ...entry, upstreamIPs: lender.clusterIPs }] : [];
  });
  if (borrowed.length === 0) return target;
  const ports = [...target.ports, ...borrowed].slice(0, MAX_TARGET_PORTS);
  // Relay the target with any protocol, because the ClusterIPs of its own Service lack these ports.
  return { ...target, ports, clusterIPs: [] };
}

/** The oldest Service with the port at the first address that has one, before those that only chose the address. */
function lenderOf(view: ServiceView, port: number, table: AddressTable): ServiceView | undefined {
  const candidatesAt = (address: string) =>
    table.at(address).filter((one) => portOf(one, port) !== undefined && one.addresses.includes(address));
  const isAssigned = ({ assigned }: ServiceView) => view.addresses.some((address) => assigned.includes(address));
  const candidates = view.addresses.map(candidatesAt).find(({ length }) => length > 0) ?? [];
  const ofBalancer = candidates.filter(isAssigned);
  return oldestOf(ofBalancer.length > 0 ? ofBalancer : candidates);
}
