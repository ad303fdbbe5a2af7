import { isIP } from "node:net";
import type { Reason } from "../../hostmap/types.ts";
import type { RoutingHints } from "../sources/types.ts";
import { canonicalIp, type ServiceView } from "./service-view.ts";

/** LoadBalancer Services, indexed by address. */
export class AddressIndex {
  readonly #services = new Map<string, ServiceView>();
  readonly #byAddress = new Map<string, Set<string>>();

  get(key: string): ServiceView | undefined {
    return this.#services.get(key);
  }

  values(): Iterable<ServiceView> {
    return this.#services.values();
  }

  /** `view` is undefined if the Service was deleted or is no longer of type LoadBalancer. */
  set(key: string, view: ServiceView | undefined): void {
    for (const address of this.#services.get(key)?.addresses ?? []) {
      const keys = this.#byAddress.get(address);
      keys?.delete(key);
      if (keys?.size === 0) this.#byAddress.delete(address);
    }
    if (view === undefined) {
      this.#services.delete(key);
      return;
    }
    this.#services.set(key, view);
    for (const address of view.addresses) {
      const keys = this.#byAddress.get(address) ?? new Set();
      this.#byAddress.set(address, keys.add(key));
    }
  }

  at(address: string): ServiceView[] {
    const keys = this.#byAddress.get(canonicalIp(address)) ?? [];
    return [...keys].sort().flatMap((key) => this.#services.get(key) ?? []);
  }
}

/** Returns the Service that the routing hints point to, or the reason why there is none or more than one. */
export function matchService(hints: RoutingHints, index: AddressIndex): ServiceView | Reason {
  const { service } = hints;
  if (service !== undefined) {
    const view = index.get(`${service.namespace}/${service.name}`);
    if (view !== undefined) return whetherShortCircuited(view);
    const text = `the Service ${service.namespace}/${service.name} is not of type LoadBalancer`;
    return { code: "no-service", text };
  }
  const addresses = hints.addresses.filter((address) => isIP(address) !== 0);
  if (addresses.length === 0) return withoutAddress(hints);
  const found = new Set(addresses.flatMap((address) => index.at(address)));
  // A Service for TCP and one for UDP (HTTP/3) may share an address.
  const serving = [...found].filter(({ ports }) => "code" in ports || ports.length > 0);
  const [only] = serving.length > 0 ? serving : found;
  if (only === undefined) {
    return { code: "no-service", text: `no LoadBalancer Service has the address ${addresses.join(", ")}` };
  }
  if (serving.length > 1) {
    const names = serving.map(({ namespace, name }) => `${namespace}/${name}`).join(", ");
    const text = `${addresses.join(", ")} belongs to several Services (${names}); configure the target by its class`;
    return { code: "several-services", text };
  }
  return whetherShortCircuited(only);
}

/** kube-proxy short-circuits IP addresses, unless their `ipMode` is `Proxy`. Otherwise there is no hairpin, so nothing to map. */
function whetherShortCircuited(view: ServiceView): ServiceView | Reason {
  const { namespace, name, addresses, hostnames, proxied } = view;
  if (proxied) {
    const text = `the Service ${namespace}/${name} has ipMode Proxy: pods reach its load balancer, no mapping is needed`;
    return { code: "ip-mode-proxy", text };
  }
  if (addresses.length > 0) return view;
  if (hostnames.length > 0) return hostnameInstead(hostnames);
  return { code: "no-address", text: `the load balancer of the Service ${namespace}/${name} has no address yet` };
}

function withoutAddress({ addresses }: RoutingHints): Reason {
  if (addresses.length > 0) return hostnameInstead(addresses);
  const text = "its status has no load balancer address yet, and no target lists its class";
  return { code: "no-address", text };
}

function hostnameInstead(hostnames: readonly string[]): Reason {
  const text = `its load balancer has the host name ${hostnames.join(", ")}, which is not short-circuited: pods reach it`;
  return { code: "load-balancer-hostname", text };
}
