import { HOSTS_KEY } from "#hostmap/metadata-keys.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { PublishedNames, RemovalHold } from "#hostmap/published-names.ts";
import type { ObjectRef, Reason, ReportedClaim } from "#hostmap/types.ts";
import { ANY_DEPTH, isWildcard } from "#hostmap/wildcards.ts";
import type { Config } from "#lib/config/schema.ts";
import { isRelayed } from "#lib/documents/listeners.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { DnsSweep } from "./dnscheck/sweep.ts";
import type { HeaderDecisions } from "./expected-headers/header-decisions.ts";
import type { FrontReconciler } from "./front-reconciler.ts";
import type { Pipeline } from "./pipeline.ts";
import type { RolloutStatus } from "./rollout/report.ts";
import type { SourceState } from "./sources/types.ts";

/** One claimed name, as `/status` and `switchback status` show it. */
export interface NameStatus extends Omit<ReportedClaim, "from" | "decision"> {
  readonly from: Pick<ObjectRef, "kind" | "namespace" | "name">;
  readonly target: string | undefined;
  readonly addresses: readonly string[];
  /** Why the name is not in the map, or why pods do not get it (wildcards). */
  readonly reason: Reason | undefined;
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
  readonly source: Pick<Pipeline, "state">;
  readonly plan: Plan;
  readonly addresses: Pick<FrontReconciler, "targets" | "reasonOf">;
  /** Undefined: names are not resolved. */
  readonly dns?: Pick<DnsSweep, "answersOf"> | undefined;
  /** The targets, with the protocols and the answers of their ports. */
  readonly headers: Pick<HeaderDecisions, "catalog" | "targetOf" | "shownAt">;
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
  const nothing = { sources: [], targets: [], warnings: [], leaving: [], names: [] };
  return { leader: false, identity, synced: false, revision: undefined, hold: undefined, ...nothing };
}

/**
 * Builds the status, with the reason for each refusal. It iterates over all claims, so use it for requests and
 * scrapes, not for each run.
 */
export function statusDocument(deps: StatusDeps): StatusDocument {
  const { synced, publishedNames: published, revision } = deps.map;
  const addresses = new Map(deps.addresses.targets().map(({ name, clusterIPs }) => [name, clusterIPs]));
  const names = Array.from(deps.plan.report(), (claim) => rowOf(claim, addresses, deps));
  const ofTargets = new Set([...deps.headers.catalog.configured().map(({ name }) => name), ...addresses.keys()]);
  const targets = Array.from(ofTargets, (name) => targetStatus(name, addresses.get(name) ?? [], deps));
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
      ...sizeWarnings(deps.plan, deps.config.inject.maxNames),
      ...asked.flatMap(({ warnings = [] }) => warnings).slice(0, LISTED),
      ...nameWarnings(names),
    ],
    leaving: [...(published?.leaving.keys() ?? [])].filter((name) => !name.startsWith(ANY_DEPTH)),
    names,
  };
}

/**
 * A pod with more names gets a warning. Its object is rewritten at each change of its status, so pods with all names of
 * a large map load the API server.
 */
const WARN_NAMES = 200;

function sizeWarnings(plan: Plan, maxNames: number): Reason[] {
  const count = [...plan.planned.keys()].filter((name) => !isWildcard(name)).length;
  if (count <= Math.min(WARN_NAMES, maxNames)) return [];
  const gets = count > maxNames ? `the first ${maxNames} of ${count} names (inject.maxNames)` : `all ${count} names`;
  const text = `a pod without a selection gets ${gets}; pods can select names with the annotation ${HOSTS_KEY}`;
  return [{ code: "many-names", text }];
}

function targetStatus(name: string, clusterIPs: readonly string[], { headers }: StatusDeps) {
  const target = headers.targetOf(name);
  if (target === undefined) return { name, relayed: false, clusterIPs, upstream: "", ports: [] };
  const { upstream } = target;
  const ports = target.ports.map(({ port, protocol }) => {
    const asked = headers.shownAt(name, port);
    return { port, protocol, ...(asked && { asked }) };
  });
  const shown = "service" in upstream ? `${upstream.service.namespace}/${upstream.service.name}` : upstream.host;
  return { name, relayed: isRelayed(target), clusterIPs, upstream: shown, ports };
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

const OF_WILDCARD: Reason = {
  code: "wildcard",
  text: "a hosts file cannot hold a wildcard: only pods with pod DNS get it",
};

/** The row of a claim. Of several warnings of a mapped name, the one of its claim comes first. */
function rowOf(claim: ReportedClaim, addresses: ReadonlyMap<string, readonly string[]>, deps: StatusDeps): NameStatus {
  const { name, since, decision } = claim;
  const { kind, namespace, name: object } = claim.from;
  const resolved = deps.dns?.answersOf(name);
  const row = { name, from: { kind, namespace, name: object }, since, ...(resolved && { resolved }) };
  if (!decision.mapped) return { ...row, target: undefined, addresses: [], reason: decision.reason };
  const { target } = decision;
  const ofTarget = deps.addresses.reasonOf(target);
  const clusterIPs = addresses.get(target);
  const warning = claim.warning ?? (clusterIPs?.length ? ofTarget : undefined);
  const mapped = { ...row, target, addresses: clusterIPs ?? [], ...(warning && { warning }) };
  if (clusterIPs?.length) return { ...mapped, reason: isWildcard(name) ? OF_WILDCARD : undefined };
  const text = `the target ${target} has no known ClusterIP; its names wait`;
  return { ...mapped, reason: ofTarget ?? { code: "target-without-address", text } };
}
