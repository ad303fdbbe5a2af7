import { allAddressesOf, canonicalAddress } from "./address-table.ts";
import type { ServiceView } from "./service-view.ts";

/**
 * The targets that serve objects, with the addresses by which the objects found them. If a Service serves only itself,
 * or objects with another of its addresses, it does not take precedence over an older Service.
 */
export class TargetsInUse {
  readonly #foundByAddress = new Map<string, Set<string>>();
  #inUse: ReadonlySet<string> = new Set();

  /** Sets the targets that have names. The others serve nothing. */
  use(names: ReadonlySet<string>): void {
    this.#inUse = names;
    for (const name of this.#foundByAddress.keys()) if (!names.has(name)) this.#foundByAddress.delete(name);
  }

  /** Notes by which of an object's addresses a target was found. */
  note(target: string, view: ServiceView, addresses: readonly string[]): void {
    const noted = this.#foundByAddress.get(target) ?? new Set();
    const own = new Set(allAddressesOf(view));
    for (const address of addresses.map(canonicalAddress)) if (own.has(address)) noted.add(address);
    this.#foundByAddress.set(target, noted);
  }

  /** Whether a target serves objects with one of these addresses. */
  serves(target: string, addresses: readonly string[]): boolean {
    const noted = this.#foundByAddress.get(target);
    return this.#inUse.has(target) && addresses.some((address) => noted?.has(address));
  }
}
