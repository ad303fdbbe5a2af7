import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { Config } from "#lib/config/schema.ts";
import { KubeMapWriter } from "#lib/documents/map-writer.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { EventRecorder } from "#lib/kube/events.ts";
import { steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { ClaimEvents } from "./claim-events/reporter.ts";
import { claimsOf, targetsOf } from "./claims.ts";
import type { DnsAnswers } from "./dnscheck/sweep.ts";
import { HeaderDecisions } from "./expected-headers/header-decisions.ts";
import { FrontReconciler } from "./front-reconciler.ts";
import { MapReconciler } from "./map-reconciler.ts";
import type { AskProxy } from "./proxy-readiness.ts";
import { PublishPacer } from "./publish-pacer.ts";
import { removalRules } from "./removal-rules.ts";
import { type StatusDocument, statusDocument } from "./status.ts";
import type { TargetCatalog, TargetLocations } from "./targets/resolver.ts";

/** How often the pages of proxies are read, and how long a new answer must last, in milliseconds. */
export interface HeaderTimes {
  readonly pollMs: number;
  readonly changeMs: number;
}

interface ReplicaDeps {
  readonly client: KubeClient;
  readonly identity: string;
  readonly clusterDomain: string | undefined;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly askProxy: AskProxy;
  /** Only tests set it. */
  readonly headerTimes?: HeaderTimes | undefined;
  /** DNS answers that are already known. If present, no name is looked up. */
  readonly answers?: DnsAnswers | undefined;
  /** The IPs of the nodes, if known. */
  readonly nodes?: ReadonlySet<string> | undefined;
  /** Describes the pods that get every name below a wildcard. Default: no pod does. */
  readonly wildcardPods?: string | undefined;
  /** Reports the loss of an address that pods hold. */
  readonly onFrontLost: (code: string, note: string, service: string) => void;
  /** Reports what the map's reconciler does. */
  readonly reporters: Pick<ConstructorParameters<typeof MapReconciler>[0], "onPublished" | "onFailed" | "onHeld">;
  /** Undefined: no Event is written. */
  readonly events?: Pick<EventRecorder, "record" | "waitMs">;
  /** How many processes read each version of the map. */
  readonly mapReaders: () => number;
}

/** What every replica does, as leader or follower: it observes and plans. */
export interface Replica {
  readonly source: ReturnType<typeof claimsOf>["source"];
  readonly plan: Plan;
  readonly addresses: FrontReconciler;
  readonly map: MapReconciler;
  /** Claims that were left out since the start, because there are too many. */
  readonly leftOut: () => number;
  readonly status: () => StatusDocument;
}

/** Starts nothing yet: `map.start()` does. */
export function createReplica(config: Config, deps: ReplicaDeps): Replica {
  const { client, identity, clusterDomain, log, now, askProxy, wildcardPods, onFrontLost: notify } = deps;
  const { namespace, policy } = config;
  const { resolver, catalog: defined, locations } = targetsOf(config, client, log, deps.nodes);
  const { events, headerTimes } = deps;
  const headers = headerDecisions(config, defined, locations, headerTimes?.changeMs);
  const catalog = headers ?? defined;
  const fronts = { client, config, clusterDomain, catalog, headers, log, notify, now, askProxy };
  const eventsOf = events && { events, client, log, wallClock: now };
  const addresses = new FrontReconciler({ ...fronts, pollMs: headerTimes?.pollMs });
  const { answers } = deps;
  const facts = { client, log, resolver, locations, headers, fronts: addresses, clusterDomain, answers };
  const claims = claimsOf(config, { ...facts, plan: () => plan });
  const { source, inCluster, verifier } = claims;
  const permitted = createClaimPolicy(policy, clusterDomain, claims.domainsOf);
  const plan: Plan = new Plan(permitted, policy.maxNamesPerNamespace, inCluster);
  const store = new KubeMapWriter({ client, namespace, log, now });
  const claimEvents = eventsOf && new ClaimEvents({ plan, source, ...eventsOf });
  const map = new MapReconciler({
    source,
    plan,
    addresses,
    store,
    removal: removalRules(config),
    pacer: new PublishPacer(config.map, deps.mapReaders),
    // With a steady clock, a jump of the wall clock neither removes names early nor holds them longer.
    now: steadyNow,
    log,
    claimEvents,
    ...deps.reporters,
  });
  claims.follow(map);
  const shown = { identity, source, plan, addresses, catalog, headers, verifier, config, wildcardPods, map };
  const status = () => statusDocument(shown);
  return { source, plan, addresses, map, leftOut: claims.leftOut, status };
}

/** Undefined: no ingress controller is asked. */
function headerDecisions(
  { discovery, proxy }: Config,
  catalog: TargetCatalog,
  locations: TargetLocations,
  changeMs: number | undefined,
): HeaderDecisions | undefined {
  if (!discovery.detect) return undefined;
  // Only version 2 supports TLVs.
  const preferred = proxy.v2Checksum || proxy.v2UniqueId ? "v2" : "v1";
  return new HeaderDecisions({ catalog, mapsAlways: (target) => locations.mapsAlways(target), preferred, changeMs });
}
