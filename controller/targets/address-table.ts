import { compareNames, foldCase } from "#hostmap/hostnames.ts";
import { canonicalIp, type ServiceView } from "./service-view.ts";

/**
 * The Services of the cluster by key and by address: an IP, or the host name of a load balancer. Several Services may
 * have one address: k3s' ServiceLB uses the addresses of the nodes, and MetalLB shares addresses on request.
 */
export class AddressTable {
  readonly #services = new Map<string, ServiceView>();
  readonly #byAddress = new Map<string, Set<string>>();

  get(key: string): ServiceView | undefined {
    return this.#services.get(key);
  }

  values(): Iterable<ServiceView> {
    return this.#services.values();
  }

  /** `view` is undefined if the Service was deleted, or no longer has an address that kube-proxy handles. */
  set(key: string, view: ServiceView | undefined): void {
    for (const address of allAddressesOf(this.#services.get(key))) {
      const keys = this.#byAddress.get(address);
      keys?.delete(key);
      if (keys?.size === 0) this.#byAddress.delete(address);
    }
    if (view === undefined) this.#services.delete(key);
    else this.#services.set(key, view);
    for (const address of allAddressesOf(view)) {
      const keys = this.#byAddress.get(address);
      if (keys === undefined) this.#byAddress.set(address, new Set([key]));
      else keys.add(key);
    }
  }

  /** The Services that have an address, in any order. */
  at(address: string): ServiceView[] {
    const keys = this.#byAddress.get(canonicalAddress(address)) ?? [];
    return [...keys].flatMap((key) => this.#services.get(key) ?? []);
  }
}

/** All addresses of a Service, short-circuited or not, in the form of `canonicalAddress`. */
export function allAddressesOf(view: ServiceView | undefined): string[] {
  return view === undefined ? [] : [...view.addresses, ...view.leftAlone, ...view.hostnames.map(foldCase)];
}

/** Normalizes an address. Host names are compared without regard to case. */
export function canonicalAddress(address: string): string {
  return canonicalIp(foldCase(address));
}

function oldestFirst(a: ServiceView, b: ServiceView): number {
  return compareNames(a.created, b.created) || compareNames(keyOf(a), keyOf(b));
}

/** The oldest Service, found in one pass, because a tenant can add many Services. */
export function oldestOf(services: readonly ServiceView[]): ServiceView | undefined {
  return services.reduce<ServiceView | undefined>(
    (oldest, one) => (oldest === undefined || oldestFirst(one, oldest) < 0 ? one : oldest),
    undefined,
  );
}

/** The key of a Service. */
export function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}
