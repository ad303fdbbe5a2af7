import { compareNames, foldCase } from "#hostmap/hostnames.ts";
import { canonicalIp, HTTP_PORTS, mayHavePort, type ServiceView } from "./service-view.ts";

/**
 * The Services of the cluster by address: an IP, or the host name of a load balancer. Several Services may have one
 * address: k3s' ServiceLB uses the addresses of the nodes, and MetalLB shares addresses on request.
 */
export class AddressTable {
  readonly #services = new Map<string, ServiceView>();
  readonly #byAddress = new Map<string, Set<string>>();
  /** Services that may have a port of HTTP or HTTPS, by address. Few of the Services that share an address have one. */
  readonly #web = new Map<string, Set<string>>();
  /** Services inside the cluster by ClusterIP, and Services of a Gateway by its namespace and name. */
  readonly #places = new Map<string, Set<string>>();

  get(key: string): ServiceView | undefined {
    return this.#services.get(key);
  }

  values(): Iterable<ServiceView> {
    return this.#services.values();
  }

  /** `view` is undefined if the Service was deleted, or no longer has an address that kube-proxy handles. */
  set(key: string, view: ServiceView | undefined): void {
    const before = this.#services.get(key);
    for (const address of allAddressesOf(before)) {
      removeFrom(this.#byAddress, address, key);
      removeFrom(this.#web, address, key);
    }
    for (const place of placesOf(before)) removeFrom(this.#places, place, key);
    if (view === undefined) {
      this.#services.delete(key);
      return;
    }
    this.#services.set(key, view);
    const isWeb = mayHavePort(view, HTTP_PORTS);
    for (const address of allAddressesOf(view)) {
      addTo(this.#byAddress, address, key);
      if (isWeb) addTo(this.#web, address, key);
    }
    for (const place of placesOf(view)) addTo(this.#places, place, key);
  }

  /** Whether a Service inside the cluster has this ClusterIP. */
  isInside(address: string): boolean {
    return this.#servicesAt(this.#places, canonicalAddress(address)).some(({ inside }) => inside);
  }

  /** The Services that were made for a Gateway, in the Gateway's namespace. */
  ofGateway(gateway: { readonly namespace: string; readonly name: string }): ServiceView[] {
    return this.#servicesAt(this.#places, keyOf(gateway));
  }

  /** The Services that have an address, in any order. */
  at(address: string): ServiceView[] {
    return this.#servicesAt(this.#byAddress, canonicalAddress(address));
  }

  /** The Services at an address that have one of these TCP ports, or whose ports are not known. */
  withPort(address: string, ports: readonly number[]): ServiceView[] {
    const index = ports.every((port) => HTTP_PORTS.includes(port)) ? this.#web : this.#byAddress;
    return this.#servicesAt(index, canonicalAddress(address)).filter((view) => mayHavePort(view, ports));
  }

  /** Whether a Service has an address. */
  hasAny(address: string): boolean {
    return this.#byAddress.has(canonicalAddress(address));
  }

  has(address: string, view: ServiceView): boolean {
    return this.#byAddress.get(canonicalAddress(address))?.has(keyOf(view)) === true;
  }

  #servicesAt(index: ReadonlyMap<string, ReadonlySet<string>>, place: string): ServiceView[] {
    return [...(index.get(place) ?? [])].flatMap((key) => this.#services.get(key) ?? []);
  }
}

function addTo(index: Map<string, Set<string>>, place: string, key: string): void {
  const keys = index.get(place);
  if (keys === undefined) index.set(place, new Set([key]));
  else keys.add(key);
}

function removeFrom(index: Map<string, Set<string>>, place: string, key: string): void {
  const keys = index.get(place);
  keys?.delete(key);
  if (keys?.size === 0) index.delete(place);
}

/**
 * The keys of a Service in `#places`. A ClusterIP contains no `/`, but the key of a Gateway does. Only a Service in
 * the Gateway's namespace counts, because anybody can label a Service with the names of others.
 */
function placesOf(view: ServiceView | undefined): string[] {
  if (view === undefined) return [];
  const own = view.gateway?.startsWith(`${view.namespace}/`) ? [view.gateway] : [];
  return [...own, ...(view.inside ? view.clusterIPs.map(canonicalIp) : [])];
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
