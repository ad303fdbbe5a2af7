import type { Config } from "../config/schema.ts";
import { frontName, isRelayed } from "../snapshot/listeners.ts";
import type { PublishedTargets } from "../snapshot/targets-format.ts";
import { silentLogger } from "../telemetry/log.ts";
import { HostResolver, type ResolverOptions } from "./host-resolver.ts";
import type { Endpoint } from "./proxy-header.ts";

/** A front Service of ours: by its addresses where the config gives them, else by its name. */
interface FrontService {
  readonly host: string | undefined;
  readonly addresses: readonly string[];
  readonly ports: readonly number[];
}

/**
 * The front Services of all relayed targets. Their names are looked up only where some target's upstream is a Service:
 * elsewhere there may be no cluster to ask.
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

/** The front Services of published targets: the controller tells their addresses. */
export function frontsOfPublished({ targets }: Pick<PublishedTargets, "targets">): FrontService[] {
  return targets.map(({ clusterIPs, ports }) => ({
    host: undefined,
    addresses: clusterIPs,
    ports: ports.map(({ port }) => port),
  }));
}

/** Keeps the addresses of the front Services current, so that the proxy can tell an upstream that is itself. */
export class SelfAddresses {
  /** Resolves when each name has had its first answer or failure. */
  readonly first: Promise<unknown>;
  #services: readonly { readonly service: FrontService; readonly resolver: HostResolver | undefined }[];

  constructor(services: readonly FrontService[], options: ResolverOptions) {
    // A front Service that does not exist yet is no fault: the controller makes it.
    const quiet = { ...options, log: silentLogger };
    this.#services = services.map((service) => ({
      service,
      resolver: service.host === undefined ? undefined : new HostResolver(service.host, quiet),
    }));
    this.first = Promise.all(this.#services.map(({ resolver }) => resolver?.first));
  }

  /** Goes over to other front Services, whose addresses are given. */
  set(services: readonly FrontService[]): void {
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
