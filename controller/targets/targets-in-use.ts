import { allAddressesOf, canonicalAddress } from "./address-table.ts";
import type { ServiceView } from "./service-view.ts";

const NONE: ReadonlySet<string> = new Set();

/** The targets that have names, and the addresses by which objects found them. */
export class TargetsInUse {
  #inUse: ReadonlySet<string> = NONE;
  /**
   * The targets that were in use before this start. They count until the current ones are known. Undefined: not read
   * yet.
   */
  #wereInUse: ReadonlySet<string> | undefined;
  /**
   * The addresses by which a target was found, by target. If a Service serves only itself, or objects with another of
   * its addresses, it does not take precedence over an older Service.
   */
  readonly #foundByAddress = new Map<string, Set<string>>();

  get isRead(): boolean {
    return this.#wereInUse !== undefined;
  }

  /** Sets the targets that were in use before this start. */
  begin(names: ReadonlySet<string> = NONE): void {
    this.#wereInUse = names;
  }

  /** Sets the targets that have names. */
  use(names: ReadonlySet<string>): void {
    this.#inUse = names;
    if (this.#wereInUse !== undefined) this.#wereInUse = NONE;
    for (const name of this.#foundByAddress.keys()) if (!names.has(name)) this.#foundByAddress.delete(name);
  }

  /** Notes by which of an object's addresses a target was found. */
  note(target: string, view: ServiceView, addresses: readonly string[]): void {
    const noted = this.#foundByAddress.get(target) ?? new Set();
    const own = new Set(allAddressesOf(view));
    for (const address of addresses.map(canonicalAddress)) if (own.has(address)) noted.add(address);
    this.#foundByAddress.set(target, noted);
  }

  /**
   * Whether a target serves objects with one of these addresses. After a restart it is known which targets were in
   * use, but not by which addresses. So only a short-circuited address counts there. A Service that only its own
   * annotation maps does not take precedence over an older one.
   */
  serves(target: string, view: ServiceView, addresses: readonly string[]): boolean {
    const noted = this.#foundByAddress.get(target);
    if (this.#inUse.has(target) && addresses.some((address) => noted?.has(address))) return true;
    return this.#wereInUse?.has(target) === true && addresses.some((address) => view.addresses.includes(address));
  }
}
