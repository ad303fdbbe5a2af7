import type { HeaderReason, TargetHeaders, TargetLocations } from "../targets/resolver.ts";

/** The knowledge of addresses that is needed to decide by an answer of DNS. */
export interface AddressBook extends TargetLocations {
  /** False until all of it is known. Until then nothing is decided. */
  readonly synced: boolean;
  /** The ClusterIPs that names of the map may resolve to. A publisher gives them to DNS. */
  ownAddresses(): ReadonlySet<string>;
  /** Why the names of a target are not mapped to it; undefined: no answer about a header prevents it. */
  against(target: string): HeaderReason | undefined;
}

/** `fronts` knows our own addresses. */
export function addressBook(
  locations: TargetLocations,
  fronts: Pick<AddressBook, "synced" | "ownAddresses">,
  headers?: Pick<TargetHeaders, "against">,
): AddressBook {
  return {
    addressesOf: (target) => locations.addressesOf(target),
    externalIPsOf: (target) => locations.externalIPsOf(target),
    targetAt: (address) => locations.targetAt(address),
    mapsAlways: (target) => locations.mapsAlways(target),
    warningOf: (target, ports) => locations.warningOf(target, ports),
    ownAddresses: () => fronts.ownAddresses(),
    against: (target) => headers?.against(target),
    get isFirstStart() {
      return locations.isFirstStart;
    },
    get synced() {
      return fronts.synced;
    },
  };
}
