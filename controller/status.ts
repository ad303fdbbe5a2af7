import type { Config } from "../config/schema.ts";
import { HOSTS_KEY } from "../hostmap/metadata-keys.ts";
import type { Plan, ReportedClaim } from "../hostmap/plan.ts";
import type { PublishedNames } from "../hostmap/published-names.ts";
import type { RemovalHold } from "../hostmap/removal-guard.ts";
import type { Reason } from "../hostmap/types.ts";
import { isRelayed } from "../snapshot/listeners.ts";
import type { DnsVerifier } from "./dnscheck/verifier.ts";
import type { Source, SourceState } from "./sources/types.ts";
import type { TargetAddresses } from "./target-addresses.ts";
import type { TargetCatalog } from "./targets/resolver.ts";

/** One claimed name, as `/status` and `switchback status` show it. */
export interface NameStatus {
  readonly name: string;
  readonly from: { readonly kind: string; readonly namespace: string; readonly name: string; readonly file?: string };
  /** creationTimestamp of that object, RFC 3339. */
  readonly since: string;
  readonly target: string | undefined;
  readonly addresses: readonly string[];
  /** Why the name is not in the map, or in it but not in pods (wildcards). */
  readonly reason: Reason | undefined;
  /** What should be looked at though the name is mapped: DNS leads it elsewhere. */
  readonly warning?: Reason;
}

/** The document behind `/status`. */
export interface StatusDocument {
  readonly leader: boolean;
  readonly identity: string;
  readonly synced: boolean;
  readonly revision: string | undefined;
  readonly sources: readonly SourceState[];
  readonly targets: ReadonlyArray<{
    readonly name: string;
    readonly relayed: boolean;
    readonly clusterIPs: readonly string[];
    /** The ingress controller: `namespace/name` of its Service, or a host. */
    readonly upstream: string;
    readonly ports: ReadonlyArray<{ readonly port: number; readonly protocol: string }>;
  }>;
  readonly hold: RemovalHold | undefined;
  /** What works, but should be looked at. */
  readonly warnings: readonly Reason[];
  /** Names that nothing claims any more and that leave soon. */
  readonly leaving: readonly string[];
  /** Names by what the cluster's DNS says of them (policy.verifyDns). */
  readonly dns?: Readonly<Record<string, number>> | undefined;
  readonly names: readonly NameStatus[];
}

export interface StatusDeps {
  readonly identity: string;
  readonly source: Source;
  readonly plan: Plan;
  readonly addresses: TargetAddresses;
  /** What the cluster's DNS says of names; none: it is not asked. */
  readonly verifier?: Pick<DnsVerifier, "verdictOf" | "flagged" | "counts"> | undefined;
  readonly catalog: Pick<TargetCatalog, "configured" | "found">;
  readonly config: Pick<Config, "inject">;
  readonly synced: () => boolean;
  readonly ledger: () => PublishedNames | undefined;
  readonly revision: () => string | undefined;
}

/** Everything that is known, with the reason of each refusal. Costs all claims: for people and for scrapes, not for the loop. */
export function statusDocument(deps: StatusDeps): StatusDocument {
  const ledger = deps.ledger();
  const addresses = new Map(deps.addresses.targets().map(({ name, clusterIPs }) => [name, clusterIPs]));
  return {
    leader: ledger !== undefined,
    identity: deps.identity,
    synced: deps.synced(),
    revision: deps.revision(),
    sources: deps.source.state(),
    targets: targetNames(deps).map((name) => targetStatus(name, addresses.get(name) ?? [], deps)),
    hold: ledger?.hold,
    warnings: [...sizeWarnings(deps.plan, deps.config.inject), ...dnsWarnings(deps)],
    dns: deps.verifier?.counts(),
    leaving: [...(ledger?.leaving.keys() ?? [])],
    names: [...deps.plan.report()].map((claim) => nameStatus(claim, addresses, deps)),
  };
}

/** A pod's object is rewritten at each change of its status, so a pod with every name of a large map is a cost to the API server. */
function sizeWarnings(plan: Plan, { warnNames, maxNames }: Config["inject"]): Reason[] {
  const count = [...plan.planned.values()].filter(({ wildcard }) => !wildcard).length;
  const choose = `pods can choose with the annotation ${HOSTS_KEY}`;
  if (count > maxNames) {
    const text = `a pod without a choice gets the first ${maxNames} of ${count} names (inject.maxNames); ${choose}`;
    return [{ code: "over-cap", text }];
  }
  if (count <= warnNames) return [];
  return [{ code: "many-names", text: `a pod without a choice gets all ${count} names; ${choose}` }];
}

/** Those in force, whether or not they have an address yet. */
function targetNames({ catalog, addresses }: StatusDeps): string[] {
  const names = [...catalog.configured(), ...addresses.targets()].map(({ name }) => name);
  return [...new Set(names)];
}

function targetStatus(name: string, clusterIPs: readonly string[], { catalog }: StatusDeps) {
  const target = catalog.configured().find((each) => each.name === name) ?? catalog.found(name);
  const upstream = target?.upstream;
  return {
    name,
    relayed: target !== undefined && isRelayed(target),
    clusterIPs,
    upstream:
      upstream === undefined
        ? ""
        : "service" in upstream
          ? `${upstream.service.namespace}/${upstream.service.name}`
          : upstream.host,
    ports: (target?.ports ?? []).map(({ port, protocol }) => ({ port, protocol })),
  };
}

/** Names that a warning lists; the others are counted. */
const LISTED = 5;

/** Mapped names that DNS does not lead to their load balancer: hosted elsewhere, or claimed by somebody they do not belong to. */
function dnsWarnings({ plan, verifier }: StatusDeps): Reason[] {
  const names = [...(verifier?.flagged() ?? [])].map(([name]) => name).filter((name) => plan.planned.has(name));
  if (names.length === 0) return [];
  const more = names.length > LISTED ? `, and ${names.length - LISTED} more` : "";
  const text = `the cluster's DNS does not lead ${names.length} mapped names to their load balancer: ${names.slice(0, LISTED).join(", ")}${more} (policy.verifyDns)`;
  return [{ code: "dns-not-here", text }];
}

function nameStatus(
  claim: ReportedClaim,
  addresses: ReadonlyMap<string, readonly string[]>,
  deps: Pick<StatusDeps, "addresses" | "verifier">,
): NameStatus {
  const { name, from, since, verdict, wildcard } = claim;
  if (!verdict.mapped) return { name, from, since, target: undefined, addresses: [], reason: verdict.reason };
  const { target } = verdict;
  const clusterIPs = addresses.get(target) ?? [];
  const reason =
    (clusterIPs.length === 0 ? deps.addresses.reasonOf?.(target) : undefined) ??
    mappedReason(wildcard, target, clusterIPs);
  const dns = deps.verifier?.verdictOf(name);
  const warning = dns === undefined || typeof dns === "string" ? {} : { warning: dns };
  return { name, from, since, target, addresses: clusterIPs, reason, ...warning };
}

function mappedReason(wildcard: boolean, target: string, clusterIPs: readonly string[]): Reason | undefined {
  if (clusterIPs.length === 0) {
    return { code: "target-without-address", text: `no ClusterIP is known of the target ${target}; its names wait` };
  }
  if (wildcard)
    return { code: "wildcard", text: "a hosts file cannot hold a wildcard: it is kept, but no pod gets it" };
  return undefined;
}
