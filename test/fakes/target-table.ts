import type { RoutingHints } from "#controller/sources/types.ts";
import { findTarget } from "#controller/targets/find-target.ts";
import { foundName, keyOf } from "#controller/targets/service-view.ts";
import { TargetTable } from "#controller/targets/target-table.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { RawService } from "#lib/kube/services.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "./memory-kube.ts";

/** What a test says about a Service. Default: a load balancer with ports 80 and 443, without an address. */
export interface ServiceParts {
  readonly type?: string;
  readonly ips?: readonly string[];
  readonly ipMode?: "VIP" | "Proxy";
  readonly external?: readonly string[];
  readonly hostnames?: readonly string[];
  readonly ports?: readonly number[];
  readonly created?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly clusterIPs?: readonly string[];
  readonly selector?: Readonly<Record<string, string>>;
}

/** A Service as the API server has it. `key` is `namespace/name`. */
export function service(key: string, parts: ServiceParts = {}): RawService {
  const { type = "LoadBalancer", ips = [], ipMode = "VIP", external, hostnames = [], ports = [80, 443] } = parts;
  const { created = "2026-01-01T00:00:00Z", labels = {}, annotations = {}, clusterIPs = ["10.96.0.7"] } = parts;
  const [namespace = "", name = ""] = key.split("/");
  const ingress = [...ips.map((ip) => ({ ip, ipMode })), ...hostnames.map((hostname) => ({ hostname }))];
  return {
    metadata: { namespace, name, creationTimestamp: created, labels, annotations },
    spec: {
      type,
      clusterIPs,
      ...(external && { externalIPs: external }),
      ...(parts.selector && { selector: parts.selector }),
      ports: ports.map((port) => ({ port })),
    },
    status: { loadBalancer: { ingress } },
  };
}

/** The name of the target that is discovered for a Service. */
export function nameOf(key: string): string {
  const [namespace = "", name = ""] = key.split("/");
  return foundName(namespace, name);
}

/** The targets of a cluster with these Services. Without a list of them, no Service is read. */
export function targetsOf(settings: object, services?: readonly RawService[]) {
  const config = parseConfig({ targets: [], ...settings });
  const client = services === undefined ? undefined : new MemoryKube().client;
  const table = new TargetTable({ client, config, log: silentLogger });
  const set = (raw: RawService) => table.set(keyOf(raw.metadata ?? {}), table.view(raw));
  for (const raw of services ?? []) set(raw);
  const of = (hints: Partial<RoutingHints>) => ({ className: "nginx", addresses: [], admitted: true, ...hints });
  return {
    table,
    set,
    remove: (key: string) => table.set(key, undefined),
    /** The target of an object, with `?` if it only stays, or the code of the reason. `held` is what its name has. */
    find: (hints: Partial<RoutingHints>, held?: string): string => {
      const { target, maybe } = findTarget(of(hints), { held }, table);
      if (typeof target === "string") return target;
      return maybe === undefined ? target.code : `${maybe}?`;
    },
    /** The target, or the reason with its text. */
    explain: (hints: Partial<RoutingHints>): string => {
      const { target } = findTarget(of(hints), { held: undefined }, table);
      return typeof target === "string" ? target : `${target.code}: ${target.text}`;
    },
    /** The ports of a discovered target, with the ClusterIPs of the Service that lends one. */
    portsOf: (key: string) =>
      table
        .found(nameOf(key))
        ?.ports.map(({ port, upstreamIPs }) => [port, ...(upstreamIPs ?? [])].join(" "))
        .sort(),
  };
}
