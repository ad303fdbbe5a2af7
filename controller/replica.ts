import type { CertManager } from "#certs/manager.ts";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { Config } from "#lib/config/schema.ts";
import { MAP_NAME } from "#lib/documents/map-format.ts";
import { KubeMapWriter } from "#lib/documents/map-writer.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { EventRecorder } from "#lib/kube/events.ts";
import { steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { ClaimEvents } from "./claim-events/reporter.ts";
import { clusterLookup } from "./dnscheck/lookup.ts";
import { type DnsAnswers, DnsSweep } from "./dnscheck/sweep.ts";
import { HeaderDecisions } from "./expected-headers/header-decisions.ts";
import { FrontReconciler } from "./front-reconciler.ts";
import { Loop } from "./loop.ts";
import type { PublicationMetrics } from "./metrics.ts";
import { Pipeline } from "./pipeline.ts";
import type { Restarter } from "./rollout/restarter.ts";
import { ClaimBudget } from "./sources/claim-budget.ts";
import { customSource } from "./sources/custom.ts";
import { gatewaySource } from "./sources/gateway.ts";
import { ingressSource } from "./sources/ingress-hosts.ts";
import { istioSource } from "./sources/istio.ts";
import { inClusterReason, Namespaces } from "./sources/namespaces.ts";
import type { RoutingHints } from "./sources/types.ts";
import { type StatusDocument, statusDocument } from "./status.ts";
import { findTarget } from "./targets/find-target.ts";
import type { Holding } from "./targets/match-service.ts";
import { TargetTable } from "./targets/target-table.ts";

export interface ReplicaDeps {
  readonly client: KubeClient;
  /** Shown in the status. */
  readonly identity: string;
  /** The cluster's DNS domain; undefined if it was not found. */
  readonly clusterDomain: string | undefined;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** How often pages of proxies are read, and how long a new answer must last, milliseconds. Only tests set it. */
  readonly headerTimes?: { readonly pollMs: number; readonly changeMs: number } | undefined;
  /** DNS answers that are already known. If present, no name is looked up. */
  readonly answers?: DnsAnswers | undefined;
  /** The IPs of the nodes, if known. */
  readonly nodes?: ReadonlySet<string> | undefined;
  /** Warns about one of our own objects. */
  readonly warn?: (code: string, note: string, kind: "ConfigMap" | "Service", name: string) => void;
  readonly metrics?: PublicationMetrics;
  /** Undefined: no Event is written about claims. */
  readonly events?: Pick<EventRecorder, "record" | "waitMs">;
  /** How many processes read each version of the map. */
  readonly mapReaders?: () => number;
}

/** Everything that decides about names, for one leader's term or one observation. */
export interface Replica {
  readonly loop: Loop;
  readonly source: Pipeline;
  /** Claims that were left out since the start, because there are too many. */
  readonly leftOut: () => number;
  readonly status: () => StatusDocument;
}

/** What a leader does, from its election to the end of its term. */
export interface Term extends Replica {
  readonly certificates: CertManager;
  readonly rollouts: Restarter;
}

/** Starts nothing yet: `loop.start()` does. */
export function createReplica(config: Config, deps: ReplicaDeps): Replica {
  const { client, identity, clusterDomain, log, now, warn, metrics, events } = deps;
  const { namespace, policy } = config;

  // Targets: by class alone, or also by the cluster's Services.
  const services = config.discovery.enabled ? { client } : {};
  const targets = new TargetTable({ ...services, config, clusterDomain, log, nodes: deps.nodes });
  const notify = (code: string, note: string, service: string) => warn?.(code, note, "Service", service);
  const { pollMs, changeMs } = deps.headerTimes ?? {};
  const preferred = preferredVersion(config);
  const headers = new HeaderDecisions({ catalog: targets, clusterDomain, preferred, changeMs });
  const addresses = new FrontReconciler({ client, config, clusterDomain, headers, log, notify, pollMs });

  // Which names a namespace may have.
  const namespaces = new Namespaces({ client, log });
  const domainsOf = policy.namespaceAnnotation ? (one: string) => namespaces.of(one)?.domains : undefined;
  const permitted = createClaimPolicy(policy, clusterDomain, domainsOf);
  const { maxNamesPerNamespace } = policy;
  const hasService = (key: string) => targets.hasService(key);
  const plan = new Plan(permitted, maxNamesPerNamespace, (name) => inClusterReason(name, namespaces, hasService));

  // The way of a name.
  const budget = new ClaimBudget({ maxNamesPerNamespace, plan });
  const mode = policy.verifyDns === "off" ? "auto" : policy.verifyDns;
  const sweep = new DnsSweep({
    ...{ locations: targets, plan, clusterDomain, mode, known: deps.answers, log },
    lookup: clusterLookup(policy.dnsServers),
    ownAddresses: () => addresses.ownAddresses(),
    now: () => performance.now(),
  });
  const dns = policy.verifyDns === "off" ? undefined : sweep;
  const ofSource = { client, log, budget };
  const configured = { ...ofSource, config: config.sources };
  const sources = [
    config.sources.ingress.enabled ? ingressSource(ofSource) : undefined,
    config.sources.gateway.enabled ? gatewaySource({ ...configured, namespaces }) : undefined,
    customSource(configured),
    istioSource(configured),
  ].filter((one) => one !== undefined);
  const stages = { resolver: targets, locations: targets, headers, dns, mode, budget, namespaces, plan };
  const find = (hints: RoutingHints, holding: Holding) => findTarget(hints, holding, targets);
  const source = new Pipeline({ log, sources, ...stages, find });
  const loop = new Loop({
    ...{ source, plan, addresses, log, metrics, rules: config.map, readers: deps.mapReaders },
    store: new KubeMapWriter({ client, namespace, log, now }),
    // With a steady clock, a jump of the wall clock neither removes names early nor holds them longer.
    now: steadyNow,
    claimEvents: events && new ClaimEvents({ plan, events, log }),
    onHeld: (text) => warn?.("removal-held", text, "ConfigMap", MAP_NAME),
  });
  /** A namespace or a Service is gone, so its name may be free. */
  const freed = () => {
    plan.reevaluateServiceNames();
    loop.enqueue();
  };
  targets.followDeleted(freed);
  namespaces.follow((namespace, before, after) => {
    if (after === undefined) freed();
    if (!policy.namespaceAnnotation || before?.domains === after?.domains) return;
    plan.reevaluate(namespace);
    loop.enqueue();
  });

  const shown = { identity, source, plan, addresses, headers, dns, config, map: loop };
  return { loop, source, leftOut: () => budget.leftOut, status: () => statusDocument(shown) };
}

/** The version of the header for ingress controllers that accept both. Only version 2 supports TLVs. */
function preferredVersion({ proxy }: Config): "v1" | "v2" {
  return proxy.v2Checksum || proxy.v2UniqueId ? "v2" : "v1";
}
