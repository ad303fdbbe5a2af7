import type { Reason } from "#hostmap/types.ts";
import type { Config, TargetConfig } from "#lib/config/schema.ts";
import { type AddressTable, keyOf } from "./address-table.ts";
import { defaultAmong } from "./default-target.ts";
import { type FoundTarget, PROXY_NAME_LABEL, portOf, type ServiceView } from "./service-view.ts";

/** A configured target. Ports of protocol `auto` have `stated` if the ingress controller is asked. */
export interface ConfiguredTarget extends TargetConfig {
  readonly ports: FoundTarget["ports"];
  /** The ClusterIPs of its Service, if they are known. */
  readonly serviceIPs?: readonly string[];
}

/**
 * A configured target. With `detect`, the annotations of its Service apply to ports of protocol `auto`. Without it,
 * such ports are v1.
 */
function configuredTarget(
  target: TargetConfig,
  { detect }: Pick<Config["discovery"], "detect">,
  service?: ServiceView,
): ConfiguredTarget {
  const addressed = { ...target, ...(service && { serviceIPs: service.clusterIPs }) };
  if (target.ports.every(({ protocol }) => protocol !== "auto")) return addressed;
  const ports = target.ports.map((port) => {
    if (port.protocol !== "auto") return port;
    return { ...port, ...(detect ? statedBy(service, port) : { protocol: "v1" as const }) };
  });
  return { ...addressed, ports };
}

function statedBy(service: ServiceView | undefined, { port, upstreamPort = port }: TargetConfig["ports"][number]) {
  const { protocol, stated = "nobody", says } = (service && portOf(service, upstreamPort)) ?? {};
  return {
    protocol: protocol === undefined || stated === "nobody" ? ("auto" as const) : protocol,
    stated,
    ...(says && { says }),
  };
}

/** The configured targets, each with its Service if the table has it. */
export class ConfiguredTargets {
  /** The target without classes, if there is one. Then it is the only target. */
  readonly byDefault: TargetConfig | undefined;
  readonly #config: Pick<Config, "targets" | "discovery">;
  readonly #table: Pick<AddressTable, "get">;
  readonly #discovers: boolean;
  readonly #byService: ReadonlyMap<string, TargetConfig>;
  /** Cached active targets. Undefined after a Service has changed. */
  #active: readonly ConfiguredTarget[] | undefined;

  constructor(config: Pick<Config, "targets" | "discovery">, table: Pick<AddressTable, "get">, discovers: boolean) {
    this.#discovers = discovers;
    this.#config = config;
    this.#table = table;
    this.byDefault = defaultAmong(config.targets);
    this.#byService = new Map(
      config.targets.flatMap((target) =>
        "service" in target.upstream ? [[keyOf(target.upstream.service), target]] : [],
      ),
    );
  }

  named(name: string): TargetConfig | undefined {
    return this.#config.targets.find((target) => target.name === name);
  }

  /** The target whose upstream is this Service. */
  behind(service: string): TargetConfig | undefined {
    return this.#byService.get(service);
  }

  serviceOf({ upstream }: TargetConfig): ServiceView | undefined {
    return "service" in upstream ? this.#table.get(keyOf(upstream.service)) : undefined;
  }

  /** What is not read is assumed to exist. A Service that cannot be a target does not count. */
  exists(target: TargetConfig): boolean {
    if (!this.#discovers || "host" in target.upstream) return true;
    return this.serviceOf(target) !== undefined && this.refusalOf(target) === undefined;
  }

  /** Why the Service of a target serves nothing, if that is known. */
  refusalOf(target: TargetConfig): Reason | undefined {
    const service = this.serviceOf(target);
    if (service?.foreign !== true) return undefined;
    const text =
      `another service proxy serves the Service ${keyOf(service)} of the target ${target.name} ` +
      `(${PROXY_NAME_LABEL}), so its ClusterIP may lead nowhere`;
    return { code: "target-missing", text };
  }

  /** The active targets. A target without classes is active only if its Service exists. */
  active(): readonly ConfiguredTarget[] {
    const { targets, discovery } = this.#config;
    this.#active ??= targets
      .filter((target) => target !== this.byDefault || this.exists(target))
      .map((target) => configuredTarget(target, discovery, this.serviceOf(target)));
    return this.#active;
  }

  /** Call this when a Service of the table has changed. */
  changed(service: string): void {
    if (this.#byService.has(service)) this.#active = undefined;
  }
}
