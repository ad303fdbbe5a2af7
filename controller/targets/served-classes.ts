import type { RoutingHints } from "../sources/types.ts";
import { allAddressesOf, canonicalAddress } from "./address-table.ts";
import { softwareNamed, softwareOfInstallation } from "./known-software.ts";
import type { ServiceView } from "./service-view.ts";

/**
 * The targets that the statuses of objects lead to, by class. Tenants write no status, so this is evidence of the
 * Service of a controller, unlike labels. It is collected anew in each pass over all objects, and counts from the next
 * pass on.
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
   * Notes a target if the status of the object has one of its addresses, and its class is of the target's software.
   * Returns whether that is new.
   */
  note(hints: RoutingHints, target: string, view: ServiceView): boolean {
    const own = new Set([...allAddressesOf(view), ...view.clusterIPs].map(canonicalAddress));
    if (!hints.addresses.some((address) => own.has(canonicalAddress(address)))) return false;
    const named = softwareNamed(hints) ?? softwareOfInstallation(hints);
    if (named === undefined || named === "outside" || !named.has(view.software ?? "")) return false;
    const key = keyOf(hints, target);
    if (this.#now.has(key)) return false;
    this.#now.add(key);
    return !this.#before.has(key);
  }

  has(hints: RoutingHints, target: string): boolean {
    return this.#before.has(keyOf(hints, target));
  }
}

function keyOf({ className, isGatewayClass, controller }: RoutingHints, target: string): string {
  return JSON.stringify([className, isGatewayClass, controller, target]);
}
