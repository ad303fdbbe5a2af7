import type { AddressBook } from "#controller/dnscheck/address-book.ts";
import type { Reason } from "#hostmap/types.ts";

interface Addresses {
  /** The addresses of each target's load balancer, by target. */
  readonly targets?: Readonly<Record<string, readonly string[]>>;
  readonly own?: readonly string[];
  /** Targets whose Service has `switchback.dev/map: always`. */
  readonly always?: readonly string[];
  readonly isFirstStart?: boolean;
  /** The warning about a target, by target. */
  readonly warnings?: Readonly<Record<string, Reason>>;
}

/** An address book that reads from `addresses`, so that a test can change them at any time. */
export function fakeAddressBook(addresses: Addresses): AddressBook {
  return {
    synced: true,
    isFirstStart: addresses.isFirstStart ?? false,
    addressesOf: (target) => addresses.targets?.[target] ?? [],
    externalIPsOf: () => [],
    targetAt: (address) => Object.entries(addresses.targets ?? {}).find(([, all]) => all.includes(address))?.[0],
    mapsAlways: (target) => addresses.always?.includes(target) ?? false,
    warningOf: (target) => addresses.warnings?.[target],
    ownAddresses: () => new Set(addresses.own),
    against: () => undefined,
  };
}

/** A cluster without other tools that give names to DNS. */
export const NO_TOOLS = { start() {}, stop() {}, known: true, has: () => false };
