import type { AddressBook } from "#controller/dnscheck/address-book.ts";
import type { Reason } from "#hostmap/types.ts";

interface Addresses {
  /** By target: the addresses of its load balancer. */
  readonly targets?: Readonly<Record<string, readonly string[]>>;
  readonly own?: readonly string[];
  /** Targets whose Service has `switchback.dev/map: always`. */
  readonly always?: readonly string[];
  readonly isFirstStart?: boolean;
  /** By target: what is wrong with it. */
  readonly warnings?: Readonly<Record<string, Reason>>;
}

/** Addresses that a test changes as it likes. */
export function fakeAddressBook(addresses: Addresses): AddressBook {
  return {
    synced: true,
    isFirstStart: addresses.isFirstStart ?? false,
    addressesOf: (target) => addresses.targets?.[target] ?? [],
    targetAt: (address) => Object.entries(addresses.targets ?? {}).find(([, all]) => all.includes(address))?.[0],
    mapsAlways: (target) => addresses.always?.includes(target) ?? false,
    warningOf: (target) => addresses.warnings?.[target],
    ownAddresses: () => new Set(addresses.own),
    against: () => undefined,
  };
}

/** A cluster without another tool that gives names to DNS. */
export const NO_TOOLS = { start() {}, stop() {}, known: true, has: () => false };
