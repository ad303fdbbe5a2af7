import type { Config } from "#lib/config/schema.ts";
import { frontName, isRelayed } from "#lib/documents/listeners.ts";
import type { PublishedTargets } from "#lib/documents/targets-format.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { HostResolver, type LookupOptions } from "./host-resolver.ts";
import type { Endpoint } from "./proxy-header.ts";

/** A front Service, identified by its addresses if they are known, else by its name. */
interface FrontService {
  readonly host: string | undefined;
  readonly addresses: readonly string[];
  readonly ports: readonly number[];
}

/**
 * The front Services of all relayed targets. Their names are resolved only if an upstream is a Service, because this
 * shows that a cluster exists.
 */
export function frontServices(config: Config, clusterDomain: string | undefined): FrontService[] {
  const hasCluster = config.targets.some(({ upstream }) => "service" in upstream);
  return config.targets.filter(isRelayed).map((target) => {
    const inCluster = hasCluster && target.clusterIPs.length === 0;
    const name = `${frontName(target.name)}.${config.namespace}.svc`;
    const host = clusterDomain === undefined ? name : `${name}.${clusterDomain.replace(/\.$/, "")}.`;
    return {
      host: inCluster ? host : undefined,
      addresses: target.clusterIPs,
      ports: target.ports.map(({ port }) => port),
    };
  });
}

/** The front Services of published targets, with the addresses that the controller publishes. */
export function publishedFrontServices({ targets }: Pick<PublishedTargets, "targets">): FrontService[] {
  return targets.map(({ clusterIPs, ports }) => ({
    host: undefined,
    addresses: clusterIPs,
    ports: ports.map(({ port }) => port),
  }));
}

/** Keeps the addresses of the front Services current, so that the proxy detects an upstream that is itself. */
export class SelfAddresses {
  /** Resolves when the first lookup of each name has ended. */
  readonly firstLookup: Promise<unknown>;
  #services: readonly { readonly service: FrontService; readonly resolver: HostResolver | undefined }[];
  #onChange = (): void => {};

  constructor(services: readonly FrontService[], options: LookupOptions) {
    // A missing front Service is no error: the controller will create it.
    const quiet = { ...options, log: silentLogger, onChange: () => this.#onChange() };
    this.#services = services.map((service) => ({
      service,
      resolver: service.host === undefined ? undefined : new HostResolver(service.host, quiet),
    }));
    this.firstLookup = Promise.all(this.#services.map(({ resolver }) => resolver?.firstLookup));
  }

  /** Calls `onChange` after each change of a looked-up address. */
  subscribe(onChange: () => void): void {
    this.#onChange = onChange;
  }

  /** Replaces the front Services with ones whose addresses are known. */
  replace(services: readonly FrontService[]): void {
    this.stop();
    this.#services = services.map((service) => ({ service, resolver: undefined }));
  }

  endpoints(): Endpoint[] {
    return this.#services.flatMap(({ service, resolver }) =>
      [...service.addresses, ...(resolver?.addresses ?? [])].flatMap((address) =>
        service.ports.map((port) => ({ address, port })),
      ),
    );
  }

  stop(): void {
    for (const { resolver } of this.#services) resolver?.stop();
  }
}
