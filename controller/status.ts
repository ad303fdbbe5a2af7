import type { TargetConfig } from "../config/schema.ts";
import type { Hold, Ledger } from "../hosts/ledger.ts";
import type { Plan, ReportedClaim } from "../hosts/plan.ts";
import type { Reason } from "../hosts/types.ts";
import type { Source, SourceState } from "../sources/types.ts";
import { isRelayed } from "../targets/listeners.ts";
import type { Addresses } from "./addresses.ts";

/** One claimed name, as `/status` and `switchback status` show it. */
export interface NameStatus {
  readonly name: string;
  readonly from: { readonly kind: string; readonly namespace: string; readonly name: string; readonly file?: string };
  readonly target: string | undefined;
  readonly addresses: readonly string[];
  /** Why the name is not in the map, or in it but not in pods (wildcards). */
  readonly reason: Reason | undefined;
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
  }>;
  readonly hold: Hold | undefined;
  /** Names that nothing claims any more and that leave soon. */
  readonly leaving: readonly string[];
  readonly names: readonly NameStatus[];
}

export interface StatusDeps {
  readonly identity: string;
  readonly source: Source;
  readonly plan: Plan;
  readonly addresses: Addresses;
  readonly targets: readonly TargetConfig[];
  readonly synced: () => boolean;
  readonly ledger: () => Ledger | undefined;
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
    targets: deps.targets.map((target) => ({
      name: target.name,
      relayed: isRelayed(target),
      clusterIPs: addresses.get(target.name) ?? [],
    })),
    hold: ledger?.hold,
    leaving: [...(ledger?.leaving.keys() ?? [])],
    names: [...deps.plan.report()].map((claim) => nameStatus(claim, addresses)),
  };
}

function nameStatus(claim: ReportedClaim, addresses: ReadonlyMap<string, readonly string[]>): NameStatus {
  const { name, from, verdict, wildcard } = claim;
  if (!verdict.mapped) return { name, from, target: undefined, addresses: [], reason: verdict.reason };
  const { target } = verdict;
  const clusterIPs = addresses.get(target) ?? [];
  return { name, from, target, addresses: clusterIPs, reason: mappedReason(wildcard, target, clusterIPs) };
}

function mappedReason(wildcard: boolean, target: string, clusterIPs: readonly string[]): Reason | undefined {
  if (clusterIPs.length === 0) {
    return { code: "target-without-address", text: `no ClusterIP is known of the target ${target}; its names wait` };
  }
  if (wildcard)
    return { code: "wildcard", text: "a hosts file cannot hold a wildcard: it is kept, but no pod gets it" };
  return undefined;
}
