import { compareNames, foldCase } from "#hostmap/hostnames.ts";
import { canonicalIp, HTTP_PORTS, mayHavePort, type ServiceView } from "./service-view.ts";

/**
 * The Services of the cluster by address: an IP, or the host name that a load balancer has. Several may have one
 * address: k3s' ServiceLB uses those of the nodes, and MetalLB shares on request.
 */
export class AddressTable {
  readonly #services = new Map<string, ServiceView>();
  readonly #byAddress = new Map<string, Set<string>>();
  /** Those that may have a port of HTTP: of all that share an address, few do. */
  readonly #web = new Map<string, Set<string>>();
  /** Those inside the cluster by ClusterIP, and those of a Gateway by its namespace and name. */
  readonly #places = new Map<string, Set<string>>();

  get(key: string): ServiceView | undefined {
    return this.#services.get(key);
  }

  values(): Iterable<ServiceView> {
    return this.#services.values();
  }

  /** `view` is undefined if the Service was deleted, or has no address that kube-proxy handles any more. */
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

  /** The Services that were made for a Gateway, in its namespace. */
  ofGateway(gateway: { readonly namespace: string; readonly name: string }): ServiceView[] {
    return this.#servicesAt(this.#places, keyOf(gateway));
  }

  /** The Services that have an address, in no order. */
  at(address: string): ServiceView[] {
    return this.#servicesAt(this.#byAddress, canonicalAddress(address));
  }

  /** Those of them that have one of these TCP ports, or whose ports are not known. */
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
 * A ClusterIP has no `/`, the key of a Gateway has one. Only a Service in the Gateway's namespace counts: anybody can
 * label a Service with the names of others.
 */
function placesOf(view: ServiceView | undefined): string[] {
  if (view === undefined) return [];
  const own = view.gateway?.startsWith(`${view.namespace}/`) ? [view.gateway] : [];
  return [...own, ...(view.inside ? view.clusterIPs.map(canonicalIp) : [])];
}

/** All addresses of a Service, short-circuited or not, as `canonicalAddress` writes them. */
export function allAddressesOf(view: ServiceView | undefined): string[] {
  return view === undefined ? [] : [...view.addresses, ...view.leftAlone, ...view.hostnames.map(foldCase)];
}

/** Host names are the same in any case. */
export function canonicalAddress(address: string): string {
  return canonicalIp(foldCase(address));
}

function oldestFirst(a: ServiceView, b: ServiceView): number {
  return compareNames(a.created, b.created) || compareNames(keyOf(a), keyOf(b));
}

/** In one pass: a tenant can add many Services. */
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
