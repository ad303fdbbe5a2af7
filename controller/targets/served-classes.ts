import type { RoutingHints } from "../sources/types.ts";
import { allAddressesOf, canonicalAddress } from "./address-table.ts";
import { softwareNamed, softwareOfInstallation } from "./known-software.ts";
import type { ServiceView } from "./service-view.ts";

/**
 * The targets that the statuses of objects lead to, by class and by address. Tenants write no status, so this is
 * evidence of the Service of a controller, unlike labels. Each pass over all objects collects it, for the next one.
 */
export class ServedClasses {
  #before: ReadonlySet<string> = new Set();
  #now = new Set<string>();

  /** Call this before all objects are resolved again. */
  beginPass(): void {
    this.#before = this.#now;
    this.#now = new Set();
  }

  /** Whether another pass may have other results. */
  get isOutdated(): boolean {
    return this.#now.symmetricDifference(this.#before).size > 0;
  }

  /**
   * Notes a target if the status of the object has one of its addresses: for the class, if that is of the target's
   * software, and for the address, if a name has the target already. Returns whether that is new.
   */
  note(hints: RoutingHints, view: ServiceView, target: string, held: string | undefined): boolean {
    const own = new Set([...allAddressesOf(view), ...view.clusterIPs].map(canonicalAddress));
    const shared = hints.addresses.map(canonicalAddress).filter((address) => own.has(address));
    if (shared.length === 0) return false;
    const named = softwareNamed(hints) ?? softwareOfInstallation(hints);
    const isOfClass = named !== undefined && named !== "outside" && named.has(view.software ?? "");
    const byAddress = held === target ? shared.map((address) => keyOf(target, address)) : [];
    const keys = [...(isOfClass ? [classKey(hints, target)] : []), ...byAddress];
    const isNew = keys.some((key) => !this.#now.has(key) && !this.#before.has(key));
    for (const key of keys) this.#now.add(key);
    return isNew;
  }

  has(hints: RoutingHints, target: string): boolean {
    return this.#before.has(classKey(hints, target));
  }

  /** Whether names of objects with one of these addresses have the target. */
  hasAt(addresses: readonly string[], target: string): boolean {
    return addresses.some((address) => this.#before.has(keyOf(target, canonicalAddress(address))));
  }
}

function classKey({ className, isGatewayClass, controller }: RoutingHints, target: string): string {
  return JSON.stringify([className, isGatewayClass, controller, target]);
}

function keyOf(target: string, address: string): string {
  return `${target} ${address}`;
}
