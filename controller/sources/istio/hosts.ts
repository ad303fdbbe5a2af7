/**
 * A name or wildcard of a Gateway's server, and the namespace whose VirtualServices may use it; undefined: all
 * namespaces.
 */
export interface ServerHost {
  readonly name: string;
  readonly namespace: string | undefined;
}

/**
 * The policy refuses longer or deeper names (`lib/hostmap/hostnames.ts`), so they need no match. A wildcard has two
 * bytes more than the name below it.
 */
const MAX_BYTES = 255;
const MAX_LABELS = 33;
/**
 * Maximum number of a VirtualService's wildcards that are compared with narrower hosts. Each is compared with every
 * host.
 */
const MAX_WIDE = 8;

/**
 * Reads `[namespace/]dnsName` of a server: `.` is the namespace of the Gateway, `*` any (istio/istio,
 * pilot/pkg/model/gateway.go, sanitizeServerHostNamespace).
 */
export function serverHost(text: string, own: string): ServerHost {
  const [namespace, name] = text.split("/", 2);
  if (name === undefined) return { name: text, namespace: undefined };
  if (namespace === "*") return { name, namespace: undefined };
  return { name, namespace: namespace === "." ? own : namespace };
}

/**
 * The wildcards that cover a host, without the host itself. A wildcard covers any number of labels, and `*` covers
 * everything. Letter case matters (istio/istio, pkg/config/host/name.go, SubsetOf). Istio also reads
 * `*-x.example.com`. It is no name that could be mapped, so it covers nothing here.
 */
function wildcardsAbove(host: string): readonly string[] {
  if (host === "*" || host.length > MAX_BYTES) return [];
  const above: string[] = [];
  for (let dot = host.indexOf("."); dot !== -1; dot = host.indexOf(".", dot + 1)) {
    if (above.length === MAX_LABELS) return [];
    const wildcard = `*${host.slice(dot)}`;
    if (wildcard !== host) above.push(wildcard);
  }
  above.push("*");
  return above;
}

/** The hosts of a Gateway's servers, indexed by name. */
export class ServerHosts {
  /** By name: the namespaces whose VirtualServices may have it, or undefined for all. */
  readonly #namespaces = new Map<string, Set<string | undefined>>();
  /** The lengths of the wildcards. With them, most suffixes of a name need no look-up. */
  readonly #lengths = new Set<number>();

  constructor(hosts: readonly ServerHost[]) {
    for (const { name, namespace } of hosts) {
      const namespaces = this.#namespaces.get(name);
      if (namespaces === undefined) this.#namespaces.set(name, new Set([namespace]));
      else namespaces.add(namespace);
      if (name.startsWith("*")) this.#lengths.add(name.length);
    }
  }

  /**
   * The names that a VirtualService's hosts and these hosts have in common. Each has the host of the VirtualService
   * that it comes from. If two hosts match, the narrower one is the common name (istio/istio,
   * pilot/pkg/networking/core/gateway.go, pickMatchingGatewayHosts; pkg/config/host/names.go, Intersection).
   */
  *common(hosts: VirtualHosts, namespace: string): Generator<readonly [host: string, name: string]> {
    for (const [host, above] of hosts.above) {
      const isBelow = (wildcard: string) => this.#lengths.has(wildcard.length) && this.#has(wildcard, namespace);
      if (this.#has(host, namespace) || above.some(isBelow)) yield [host, host];
    }
    if (hosts.wildcards.length === 0) return;
    for (const [name, namespaces] of this.#namespaces) {
      const wide = hosts.wildcards.filter((wildcard) => wildcard !== name && name.endsWith(wildcard.slice(1)));
      if (wide.length > 0 && isAllowed(namespaces, namespace)) for (const wildcard of wide) yield [wildcard, name];
    }
  }

  #has(name: string, namespace: string): boolean {
    const namespaces = this.#namespaces.get(name);
    return namespaces !== undefined && isAllowed(namespaces, namespace);
  }
}

/** The hosts of a VirtualService, prepared for the comparison with several Gateways. */
export interface VirtualHosts {
  /** Each host with the wildcards that cover it. */
  readonly above: ReadonlyMap<string, readonly string[]>;
  /** The wildcards that are compared with narrower hosts. */
  readonly wildcards: readonly string[];
}

export function virtualHosts(hosts: readonly string[]): VirtualHosts {
  return {
    above: new Map(hosts.map((host) => [host, wildcardsAbove(host)])),
    wildcards: hosts.filter((host) => host === "*" || host.startsWith("*.")).slice(0, MAX_WIDE),
  };
}

function isAllowed(namespaces: ReadonlySet<string | undefined>, namespace: string): boolean {
  return namespaces.has(undefined) || namespaces.has(namespace);
}
