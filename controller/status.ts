import { isIPv4 } from "node:net";
import { KEPT } from "#hostmap/conflict.ts";
import { parseHostname } from "#hostmap/hostnames.ts";
import { HOSTS_KEY } from "#hostmap/metadata-keys.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { PublishedNames, RemovalHold } from "#hostmap/published-names.ts";
import type { Reason, ReportedClaim } from "#hostmap/types.ts";
import { ANY_DEPTH, isWildcard, wildcardAbove } from "#hostmap/wildcards.ts";
import type { Config } from "#lib/config/schema.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import { countDecisions } from "./dnscheck/dns-decision.ts";
import type { NameDecisions } from "./dnscheck/sweep.ts";
import { contradictionWarnings } from "./expected-headers/decide-protocols.ts";
import type { HeaderDecisions } from "./expected-headers/header-decisions.ts";
import type { RolloutStatus } from "./rollout/report.ts";
import { IN_CLUSTER_NAME } from "./sources/in-cluster-names.ts";
import type { ClaimSource, SourceState } from "./sources/types.ts";
import type { TargetAddresses } from "./target-addresses.ts";
import { PORT_LOST } from "./targets/lost-ports.ts";
import type { TargetCatalog } from "./targets/resolver.ts";

/** One claimed name, as `/status` and `switchback status` show it. */
export interface NameStatus {
  readonly name: string;
  readonly from: { readonly kind: string; readonly namespace: string; readonly name: string };
  /** creationTimestamp of the object, in RFC 3339 format. */
  readonly since: string;
  readonly target: string | undefined;
  readonly addresses: readonly string[];
  /** Why the name is not in the map, or why pods do not get it (wildcards). */
  readonly reason: Reason | undefined;
  /**
   * A problem of a mapped name: it is now the name of a Service, it resolves to another address, or its target lacks
   * ports. For an unmapped name: some pods get the addresses of a wildcard for it.
   */
  readonly warning?: Reason;
  /** The addresses that the cluster's DNS has for the name, if it was asked: at most 16. */
  readonly resolved?: readonly string[];
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
    readonly ports: ReadonlyArray<{
      readonly port: number;
      readonly protocol: string;
      /** The ingress controller's answer when the proxies asked it for a PROXY header. */
      readonly asked?: {
        readonly answer: string;
        /** What contradicts the answer. */
        readonly warnings?: readonly Reason[];
      };
    }>;
  }>;
  readonly hold: RemovalHold | undefined;
  /** Problems that do not stop the mapping. */
  readonly warnings: readonly Reason[];
  /** Names that are no longer claimed and will be removed soon. */
  readonly leaving: readonly string[];
  /** The number of names per DNS decision (policy.verifyDns). */
  readonly dns?: Readonly<Record<string, number>> | undefined;
  readonly names: readonly NameStatus[];
}

/** The whole page, as the commands read it. A leader's page also has the state of workloads. */
export type FullStatus = StatusDocument & { readonly running?: RolloutStatus };

export interface StatusDeps {
  readonly identity: string;
  readonly source: ClaimSource;
  readonly plan: Plan;
  readonly addresses: TargetAddresses;
  /** DNS decisions about names; undefined: names are not resolved. */
  readonly verifier?: NameDecisions | undefined;
  readonly catalog: Pick<TargetCatalog, "configured" | "found">;
  /** Undefined: no ingress controller is asked for a PROXY header. */
  readonly headers?: Pick<HeaderDecisions, "shownAt"> | undefined;
  readonly config: Pick<Config, "inject">;
  /** Describes the pods that get every name below a wildcard. Default: no pod does. */
  readonly wildcardPods?: string | undefined;
  readonly map: {
    readonly synced: boolean;
    /** Undefined: this replica does not lead. */
    readonly publishedNames: Pick<PublishedNames, "hold" | "leaving"> | undefined;
    /** The revision of the map that this replica published last. */
    readonly revision: string | undefined;
  };
}

/**
 * Builds the status, with the reason for each refusal. It iterates over all claims, so use it for requests and
 * scrapes, not for each run.
 */
export function statusDocument(deps: StatusDeps): StatusDocument {
  const { synced, publishedNames: published, revision } = deps.map;
  const addresses = new Map(deps.addresses.targets().map(({ name, clusterIPs }) => [name, clusterIPs]));
  const claims = [...deps.plan.report()];
  const names = claims.map((claim) => ({
    ...nameStatus(claim, addresses, deps),
    ...resolvedTo(claim.name, deps.verifier),
  }));
  const targets = targetNames(deps).map((name) => targetStatus(name, addresses.get(name) ?? [], deps));
  const asked = targets.flatMap(({ ports }) => ports.flatMap((port) => port.asked ?? []));
  return {
    leader: published !== undefined,
    identity: deps.identity,
    synced,
    revision,
    sources: deps.source.state(),
    targets,
    hold: published?.hold,
    warnings: [
      ...sizeWarnings(deps.plan, deps.config.inject),
      ...contradictionWarnings(asked.flatMap(({ warnings = [] }) => warnings)),
      ...dnsWarnings(deps),
      ...serviceNameWarnings(names),
      ...keptWarnings(names),
      ...portWarnings(names),
      ...ipv6Warnings(names),
      ...wildcardWarnings(names, deps.wildcardPods),
    ],
    dns: deps.verifier && countDecisions(deps.verifier.decisions()),
    leaving: [...(published?.leaving.keys() ?? [])].filter((name) => !name.startsWith(ANY_DEPTH)),
    names,
  };
}

/**
 * A pod's object is rewritten at each change of its status. So pods with all names of a large map load the API
 * server.
 */
function sizeWarnings(plan: Plan, { warnNames, maxNames }: Config["inject"]): Reason[] {
  const count = [...plan.planned.values()].filter(({ wildcard }) => !wildcard).length;
  const choose = `pods can select names with the annotation ${HOSTS_KEY}`;
  if (count > maxNames) {
    const text = `a pod without a selection gets the first ${maxNames} of ${count} names (inject.maxNames); ${choose}`;
    return [{ code: "over-cap", text }];
  }
  if (count <= warnNames) return [];
  return [{ code: "many-names", text: `a pod without a selection gets all ${count} names; ${choose}` }];
}

/** The targets in use, with or without an address. */
function targetNames({ catalog, addresses }: StatusDeps): string[] {
  const names = [...catalog.configured(), ...addresses.targets()].map(({ name }) => name);
  return [...new Set(names)];
}

function targetStatus(
  name: string,
  clusterIPs: readonly string[],
  { catalog, headers }: Pick<StatusDeps, "catalog" | "headers">,
): StatusDocument["targets"][number] {
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
    ports: (target?.ports ?? []).map(({ port, protocol }) => {
      const asked = headers?.shownAt(name, port);
      return { port, protocol, ...(asked && { asked }) };
    }),
  };
}

const WILDCARD_COVERS = "wildcard-covers";

/** Maximum number of names in a warning; the others are counted. */
const LISTED = 5;

/**
 * Mapped names that do not resolve to their load balancer. They are hosted elsewhere, or somebody claims them without
 * owning them.
 */
function dnsWarnings({ plan, verifier }: StatusDeps): Reason[] {
  const names = [...(verifier?.mismatches() ?? [])].map(([name]) => name).filter((name) => plan.planned.has(name));
  if (names.length === 0) return [];
  const text =
    `${names.length} mapped names do not resolve to their load balancer in the cluster's DNS: ${listed(names)} ` +
    "(policy.verifyDns)";
  return [{ code: "dns-not-here", text }];
}

/** Names that were mapped before they became names of Services. In opted-in pods, the mapping hides the Service. */
function serviceNameWarnings(all: readonly NameStatus[]): Reason[] {
  const names = namesWith(IN_CLUSTER_NAME, all);
  if (names.length === 0) return [];
  return [
    {
      code: IN_CLUSTER_NAME,
      text: `${names.length} mapped names hide Services of these names from opted-in pods: ${listed(names)}`,
    },
  ];
}

/** Names that stay mapped, although a fresh install would not know their target. */
function keptWarnings(all: readonly NameStatus[]): Reason[] {
  const names = namesWith(KEPT, all);
  if (names.length === 0) return [];
  return [
    { code: KEPT, text: `${names.length} names stay mapped that a fresh install would not map: ${listed(names)}` },
  ];
}

/** Names that pods cannot reach on port 80 or 443. */
function portWarnings(all: readonly NameStatus[]): Reason[] {
  const names = namesWith(PORT_LOST, all);
  if (names.length === 0) return [];
  const text = `${names.length} names have a target without port 80 or 443: pods lose that port: ${listed(names)}`;
  return [{ code: PORT_LOST, text }];
}

/** Names with a public IPv6 address that some clients prefer to the mapping. */
function ipv6Warnings(all: readonly NameStatus[]): Reason[] {
  const names = namesWith("public-ipv6", all);
  if (names.length === 0) return [];
  const text = `${names.length} names have a public IPv6 address, and their mapping is IPv4 only: ${listed(names)}`;
  return [{ code: "public-ipv6", text }];
}

/** Unmapped names for which some pods nevertheless get the addresses of a wildcard. */
function wildcardWarnings(all: readonly NameStatus[], pods: string | undefined): Reason[] {
  const names = [...new Set(namesWith(WILDCARD_COVERS, all))];
  if (names.length === 0 || pods === undefined) return [];
  const text =
    `${names.length} names are not mapped, but ${pods} get the addresses of a wildcard for them: ` + `${listed(names)}`;
  return [{ code: WILDCARD_COVERS, text }];
}

function namesWith(code: string, all: readonly NameStatus[]): string[] {
  return all.flatMap(({ name, warning }) => (warning?.code === code ? [name] : []));
}

function listed(names: readonly string[]): string {
  const more = names.length > LISTED ? `, and ${names.length - LISTED} more` : "";
  return `${names.slice(0, LISTED).join(", ")}${more}`;
}

function nameStatus(
  claim: ReportedClaim,
  addresses: ReadonlyMap<string, readonly string[]>,
  deps: Pick<StatusDeps, "addresses" | "verifier" | "wildcardPods" | "plan">,
): NameStatus {
  const { name, from, since, decision, wildcard, warning: ofName } = claim;
  if (!decision.mapped) {
    const covered = coveredBy(name, addresses, deps);
    const { reason } = decision;
    return { name, from, since, target: undefined, addresses: [], reason, ...(covered && { warning: covered }) };
  }
  const { target } = decision;
  const clusterIPs = addresses.get(target) ?? [];
  const ofTarget = deps.addresses.reasonOf?.(target);
  const reason =
    (clusterIPs.length === 0 ? ofTarget : undefined) ?? mappedReason(wildcard, target, clusterIPs, deps.wildcardPods);
  const ofDns = deps.verifier?.warningOf(name);
  const first = ofName?.code === IN_CLUSTER_NAME || ofName?.code === KEPT ? ofName : undefined;
  const ofMapping = (clusterIPs.length > 0 ? ofTarget : undefined) ?? ofName;
  const warning = first ?? ofDns ?? ofMapping ?? bypassedByIpv6(name, clusterIPs, deps.verifier);
  return { name, from, since, target, addresses: clusterIPs, reason, ...(warning && { warning }) };
}

/** Most names have a few addresses, but a hostile one has thousands. */
const MAX_RESOLVED = 16;

function resolvedTo(name: string, verifier: StatusDeps["verifier"]): Pick<NameStatus, "resolved"> {
  const answers = verifier?.answersOf(name);
  return answers === undefined ? {} : { resolved: answers.slice(0, MAX_RESOLVED) };
}

/** glibc, musl, Go, Java, Node and curl use only the hosts file if it has the name. Some resolvers also ask DNS. */
function bypassedByIpv6(
  name: string,
  clusterIPs: readonly string[],
  verifier: StatusDeps["verifier"],
): Reason | undefined {
  if (clusterIPs.length === 0 || !clusterIPs.every(isIPv4) || !verifier?.hasPublicIpv6(name)) return undefined;
  const text =
    "its mapping is IPv4 only, and DNS has an IPv6 address for it: clients that ask DNS for the other family " +
    "(c-ares in gRPC, hickory) bypass the mapping";
  return { code: "public-ipv6", text };
}

/** Whether some pods get a wildcard's addresses for a name that is not mapped. */
function coveredBy(
  name: string,
  addresses: ReadonlyMap<string, readonly string[]>,
  { plan, wildcardPods }: Pick<StatusDeps, "plan" | "wildcardPods">,
): Reason | undefined {
  const { planned } = plan;
  if (wildcardPods === undefined || isWildcard(name) || planned.has(name)) return undefined;
  if (parseHostname(name).kind !== "name") return undefined;
  const wildcard = wildcardAbove(name, planned);
  const target = wildcard === undefined ? undefined : planned.get(wildcard)?.target;
  if (target === undefined || (addresses.get(target) ?? []).length === 0) return undefined;
  return { code: WILDCARD_COVERS, text: `${wildcardPods} get the addresses of ${wildcard} for it` };
}

function mappedReason(
  wildcard: boolean,
  target: string,
  clusterIPs: readonly string[],
  wildcardPods: string | undefined,
): Reason | undefined {
  if (clusterIPs.length === 0) {
    return { code: "target-without-address", text: `the target ${target} has no known ClusterIP; its names wait` };
  }
  if (wildcard) {
    const reach = wildcardPods === undefined ? "it is kept, but no pod gets it" : `only ${wildcardPods} get it`;
    return { code: "wildcard", text: `a hosts file cannot hold a wildcard: ${reach}` };
  }
  return undefined;
}
