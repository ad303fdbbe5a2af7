import { compareNames, foldCase } from "#hostmap/hostnames.ts";
import { canonicalIp, type ServiceView } from "./service-view.ts";

/**
 * The Services of the cluster by address: an IP, or the host name that a load balancer has. Several may have one
 * address: k3s' ServiceLB uses those of the nodes, and MetalLB shares on request.
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

  /** `view` is undefined if the Service was deleted, or has no address that kube-proxy handles any more. */
  set(key: string, view: ServiceView | undefined): void {
    for (const address of allAddressesOf(this.#services.get(key))) {
      const keys = this.#byAddress.get(address);
      keys?.delete(key);
      if (keys?.size === 0) this.#byAddress.delete(address);
    }
    if (view === undefined) {
      this.#services.delete(key);
      return;
    }
    this.#services.set(key, view);
    for (const address of allAddressesOf(view)) {
      const keys = this.#byAddress.get(address) ?? new Set();
      this.#byAddress.set(address, keys.add(key));
    }
  }

  /** The Services that have an address, the oldest first. */
  at(address: string): ServiceView[] {
    const keys = this.#byAddress.get(canonicalAddress(address)) ?? [];
    return [...keys].flatMap((key) => this.#services.get(key) ?? []).sort(oldestFirst);
  }
}

/** All addresses of a Service, short-circuited or not, as `canonicalAddress` writes them. */
export function allAddressesOf(view: ServiceView | undefined): string[] {
  return view === undefined ? [] : [...view.addresses, ...view.proxied, ...view.hostnames.map(foldCase)];
}

/** Host names are the same in any case. */
export function canonicalAddress(address: string): string {
  return canonicalIp(foldCase(address));
}

export function oldestFirst(a: ServiceView, b: ServiceView): number {
  return compareNames(a.created, b.created) || compareNames(keyOf(a), keyOf(b));
}

/** The key of a Service. */
export function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}
