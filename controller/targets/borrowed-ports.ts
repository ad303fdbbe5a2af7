import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import { type AddressTable, oldestOf } from "./address-table.ts";
import { type FoundTarget, HTTP_PORTS, portOf, type ServiceView } from "./service-view.ts";

/**
 * The ports that objects want, but a target's own Service lacks. Services may split the ports of one address (MetalLB
 * shares it on request), and kube-proxy leads each port to the Service that has it. Only ports that an object wants
 * count, because in k3s the Services of all tenants have the addresses of the nodes.
 */
export class BorrowedPorts {
  readonly #table: AddressTable;
  /** The wanted ports by target. */
  #wanted = new Map<string, Set<number>>();
  /** The wanted ports before the last reset. */
  #before: ReadonlyMap<string, ReadonlySet<number>> = new Map();

  constructor(table: AddressTable) {
    this.#table = table;
  }

  /** Call this before all objects are resolved again. Until `settle`, the ports that they wanted before count, too. */
  reset(): void {
    this.#before = this.#wanted;
    this.#wanted = new Map();
  }

  /** Forgets the ports that no object wants any more. Call this after all objects were resolved again. */
  settle(): void {
    this.#before = new Map();
  }

  /** Adds the ports that an object wants. Returns whether one of them is new. */
  want(target: string, view: ServiceView, ports: readonly number[] = HTTP_PORTS): boolean {
    const wanted = this.#wanted.get(target) ?? new Set();
    const lacking = ports.filter((port) => !wanted.has(port) && portOf(view, port) === undefined);
    const added = lacking.slice(0, MAX_TARGET_PORTS - wanted.size);
    if (added.length === 0) return false;
    for (const port of added) wanted.add(port);
    this.#wanted.set(target, wanted);
    return added.some((port) => this.#before.get(target)?.has(port) !== true);
  }

  /**
   * The target with its borrowed ports. Ports of HTTP and HTTPS are always wanted, because DNS alone may lead names
   * to it.
   */
  complete(target: FoundTarget, view: ServiceView): FoundTarget {
    const { name } = target;
    const wanted = new Set([...HTTP_PORTS, ...(this.#wanted.get(name) ?? []), ...(this.#before.get(name) ?? [])]);
    const borrowed = [...wanted].flatMap((port) => {
      if (portOf(view, port) !== undefined) return [];
      const lender = this.#lenderOf(view, port);
      const entry = lender && portOf(lender, port);
      return lender && entry ? [{ ...entry, upstreamIPs: lender.clusterIPs }] : [];
    });
    if (borrowed.length === 0) return target;
    const ports = [...target.ports, ...borrowed].slice(0, MAX_TARGET_PORTS);
    // Relay the target whatever the protocol is, because the ClusterIPs of its own Service lack these ports.
    return { ...target, ports, clusterIPs: [] };
  }

  /** The oldest Service with the port at the first address that has one, before those that only chose the address. */
  #lenderOf(view: ServiceView, port: number): ServiceView | undefined {
    const candidatesAt = (address: string) =>
      this.#table
        .withPort(address, [port])
        .filter((one) => portOf(one, port) !== undefined && one.addresses.includes(address));
    const isAssigned = ({ assigned }: ServiceView) => view.addresses.some((address) => assigned.includes(address));
    const candidates = view.addresses.map(candidatesAt).find(({ length }) => length > 0) ?? [];
    const ofBalancer = candidates.filter(isAssigned);
    return oldestOf(ofBalancer.length > 0 ? ofBalancer : candidates);
  }
}
