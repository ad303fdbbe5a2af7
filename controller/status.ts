import { HOSTS_KEY } from "#hostmap/metadata-keys.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { PublishedNames, RemovalHold } from "#hostmap/published-names.ts";
import type { Reason, ReportedClaim } from "#hostmap/types.ts";
import { ANY_DEPTH, isWildcard } from "#hostmap/wildcards.ts";
import type { Config } from "#lib/config/schema.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { NameDecisions } from "./dnscheck/sweep.ts";
import type { HeaderDecisions } from "./expected-headers/header-decisions.ts";
import type { FrontReconciler } from "./front-reconciler.ts";
import type { RolloutStatus } from "./rollout/report.ts";
import type { ClaimSource, SourceState } from "./sources/types.ts";

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
   * ports.
   */
  readonly warning?: Reason;
  /** The addresses that the cluster's DNS has for the name, if it was asked: at most 16 of each family. */
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
  readonly names: readonly NameStatus[];
}

/** The whole page, as the commands read it. A leader's page also has the state of workloads. */
export type FullStatus = StatusDocument & { readonly running?: RolloutStatus };

export interface StatusDeps {
  readonly identity: string;
  readonly source: ClaimSource;
  readonly plan: Plan;
  readonly addresses: Pick<FrontReconciler, "targets" | "reasonOf">;
  /** DNS decisions about names; undefined: names are not resolved. */
  readonly verifier?: NameDecisions | undefined;
  /** The targets, with the protocols and the answers of their ports. */
  readonly headers: Pick<HeaderDecisions, "configured" | "found" | "shownAt">;
  readonly config: Pick<Config, "inject">;
  readonly map: {
    readonly synced: boolean;
    /** Undefined: this replica does not lead. */
    readonly publishedNames: Pick<PublishedNames, "hold" | "leaving"> | undefined;
    /** The revision of the map that this replica published last. */
    readonly revision: string | undefined;
  };
}

/** The status of a replica that waits for the Lease: it knows nothing about names. */
export function followerStatus(identity: string): StatusDocument {
  const unknown = {
    revision: undefined,
    hold: undefined,
    sources: [],
    targets: [],
    warnings: [],
    leaving: [],
    names: [],
  };
  return { leader: false, identity, synced: false, ...unknown };
}

/**
 * Builds the status, with the reason for each refusal. It iterates over all claims, so use it for requests and
 * scrapes, not for each run.
 */
export function statusDocument(deps: StatusDeps): StatusDocument {
  const { synced, publishedNames: published, revision } = deps.map;
  const addresses = new Map(deps.addresses.targets().map(({ name, clusterIPs }) => [name, clusterIPs]));
  const names = Array.from(deps.plan.report(), (claim) => rowOf(claim, addresses, deps));
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
      ...asked.flatMap(({ warnings = [] }) => warnings).slice(0, LISTED),
      ...nameWarnings(names),
    ],
    leaving: [...(published?.leaving.keys() ?? [])].filter((name) => !name.startsWith(ANY_DEPTH)),
    names,
  };
}

/**
 * A pod's object is rewritten at each change of its status. So pods with all names of a large map load the API
 * server.
 */
function sizeWarnings(plan: Plan, { warnNames, maxNames }: Config["inject"]): Reason[] {
  const count = [...plan.planned.keys()].filter((name) => !isWildcard(name)).length;
  const choose = `pods can select names with the annotation ${HOSTS_KEY}`;
  if (count > maxNames) {
    const text = `a pod without a selection gets the first ${maxNames} of ${count} names (inject.maxNames); ${choose}`;
    return [{ code: "over-cap", text }];
  }
  if (count <= warnNames) return [];
  return [{ code: "many-names", text: `a pod without a selection gets all ${count} names; ${choose}` }];
}

/** The targets in use, with or without an address. */
function targetNames({ headers, addresses }: StatusDeps): string[] {
  const names = [...headers.configured(), ...addresses.targets()].map(({ name }) => name);
  return [...new Set(names)];
}

function targetStatus(
  name: string,
  clusterIPs: readonly string[],
  { headers }: Pick<StatusDeps, "headers">,
): StatusDocument["targets"][number] {
  const target = headers.configured().find((each) => each.name === name) ?? headers.found(name);
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
      const asked = headers.shownAt(name, port);
      return { port, protocol, ...(asked && { asked }) };
    }),
  };
}

/** Maximum number of names in a warning, and of warnings about ports. `targets` has the others. */
const LISTED = 5;

/** One warning for each code: the names that have it, and the text of the first. */
function nameWarnings(all: readonly NameStatus[]): Reason[] {
  const byCode = Map.groupBy(
    all.filter(({ warning }) => warning !== undefined),
    ({ warning }) => warning?.code ?? "",
  );
  return Array.from(byCode, ([code, some]) => {
    const names = [...new Set(some.map(({ name }) => name))];
    const text = `${listSome(names, LISTED, (name) => name)}: ${some[0]?.warning?.text}`;
    return { code, text: names.length === 1 ? text : `${names.length} names, ${text}` };
  });
}

/** The row of a claim. Of several warnings of a mapped name, the one of the name itself comes first. */
function rowOf(claim: ReportedClaim, addresses: ReadonlyMap<string, readonly string[]>, deps: StatusDeps): NameStatus {
  const { name, from, since, decision } = claim;
  const { verifier } = deps;
  const target = decision.mapped ? decision.target : undefined;
  const clusterIPs = (target === undefined ? undefined : addresses.get(target)) ?? [];
  const ofTarget = target === undefined ? undefined : deps.addresses.reasonOf(target);
  const reason = decision.mapped
    ? clusterIPs.length === 0
      ? (ofTarget ?? withoutAddress(decision.target))
      : ofWildcard(claim)
    : decision.reason;
  const warning = decision.mapped
    ? (claim.warning ?? verifier?.warningOf(name) ?? (clusterIPs.length > 0 ? ofTarget : undefined))
    : undefined;
  const resolved = verifier?.answersOf(name);
  const shown = { name, from, since, target, addresses: clusterIPs, reason };
  return { ...shown, ...(warning && { warning }), ...(resolved && { resolved }) };
}

function withoutAddress(target: string): Reason {
  return { code: "target-without-address", text: `the target ${target} has no known ClusterIP; its names wait` };
}

function ofWildcard({ name }: ReportedClaim): Reason | undefined {
  if (!isWildcard(name)) return undefined;
  return { code: "wildcard", text: "a hosts file cannot hold a wildcard: only pods with pod DNS get it" };
}
