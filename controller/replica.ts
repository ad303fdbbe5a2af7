import type { CertManager } from "#certs/manager.ts";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { Config } from "#lib/config/schema.ts";
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
import { Pipeline } from "./pipeline.ts";
import type { AskProxy } from "./proxy-readiness.ts";
import type { Restarter } from "./rollout/restarter.ts";
import { ClaimBudget } from "./sources/claim-budget.ts";
import { customSource } from "./sources/custom.ts";
import { gatewaySource } from "./sources/gateway.ts";
import { InClusterNames } from "./sources/in-cluster-names.ts";
import { ingressSource } from "./sources/ingress-hosts.ts";
import { istioSource } from "./sources/istio.ts";
import { Namespaces } from "./sources/namespaces.ts";
import type { Source } from "./sources/types.ts";
import { type StatusDocument, statusDocument } from "./status.ts";
import { TargetDiscovery } from "./targets/discovery.ts";

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
  /** Reports the loss of an address that pods hold. */
  readonly onFrontLost: (code: string, note: string, service: string) => void;
  /** Reports what the loop does. */
  readonly reporters: Pick<ConstructorParameters<typeof Loop>[0], "onPublished" | "onFailed" | "onHeld">;
  /** Undefined: no Event is written. */
  readonly events?: Pick<EventRecorder, "record" | "waitMs">;
  /** How many processes read each version of the map. */
  readonly mapReaders: () => number;
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
  const { client, identity, clusterDomain, log, now, askProxy, onFrontLost: notify, events } = deps;
  const { namespace, policy } = config;

  // Targets: by class alone, or also by the cluster's Services.
  const services = config.discovery.enabled ? { client } : {};
  const targets = new TargetDiscovery({ ...services, config, log, nodes: deps.nodes });
  const { pollMs, changeMs } = deps.headerTimes ?? {};
  const headers = new HeaderDecisions({ catalog: targets, preferred: preferredVersion(config), changeMs });
  const addresses = new FrontReconciler({ client, config, clusterDomain, headers, log, notify, now, askProxy, pollMs });

  // Which names a namespace may have.
  const namespaces = new Namespaces({ client, log });
  const names = new InClusterNames({ namespaces, services: targets });
  const domainsOf = policy.namespaceAnnotation ? (one: string) => namespaces.of(one)?.domains : undefined;
  const permitted = createClaimPolicy(policy, clusterDomain, domainsOf);
  const { maxNamesPerNamespace } = policy;
  const plan = new Plan(permitted, maxNamesPerNamespace, (name) => names.reasonOf(name));

  // The way of a name.
  const budget = new ClaimBudget({ maxNamesPerNamespace, holderOf: (name) => plan.planned.get(name)?.from });
  const mode = policy.verifyDns === "off" ? "auto" : policy.verifyDns;
  const sweep = new DnsSweep({
    ...{ locations: targets, clusterDomain, mode, known: deps.answers, log },
    lookup: clusterLookup(policy.dnsServers),
    ownAddresses: () => addresses.ownAddresses(),
    now: () => performance.now(),
  });
  const dns = policy.verifyDns === "off" ? undefined : sweep;
  const sources = configuredSources(config.sources, { client, log, clusterDomain, budget, namespaces });
  const stages = { resolver: targets, locations: targets, headers, dns, mode, budget, names, plan };
  const source = new Pipeline({ log, sources, ...stages, prerequisites: [namespaces] });
  const loop = new Loop({
    ...{ source, plan, addresses, log, rules: config.map, readers: deps.mapReaders },
    store: new KubeMapWriter({ client, namespace, log, now }),
    // With a steady clock, a jump of the wall clock neither removes names early nor holds them longer.
    now: steadyNow,
    claimEvents: events && new ClaimEvents({ plan, source, events, client, log, wallClock: now }),
    ...deps.reporters,
  });
  namespaces.follow((namespace, before, after) => {
    if (!policy.namespaceAnnotation || before?.domains === after?.domains) return;
    plan.reevaluate(namespace);
    loop.enqueue();
  });
  names.follow(() => {
    plan.reevaluateServiceNames();
    loop.enqueue();
  });

  const shown = { identity, source, plan, addresses, headers, verifier: dns, config, map: loop };
  return { loop, source, leftOut: () => budget.leftOut, status: () => statusDocument(shown) };
}

/** The version of the header for ingress controllers that accept both. Only version 2 supports TLVs. */
function preferredVersion({ proxy }: Config): "v1" | "v2" {
  return proxy.v2Checksum || proxy.v2UniqueId ? "v2" : "v1";
}

function configuredSources(
  config: Config["sources"],
  deps: Pick<ReplicaDeps, "client" | "log" | "clusterDomain"> & {
    readonly budget: ClaimBudget;
    readonly namespaces: Namespaces;
  },
): Source[] {
  const { client, budget, namespaces, log, clusterDomain } = deps;
  const sources = [
    config.ingress.enabled && ingressSource({ client, config, budget, log }),
    config.gateway.enabled && gatewaySource({ client, config, budget, namespaces, log, clusterDomain }),
    customSource({ client, config, budget, log }),
    istioSource({ client, config, budget, log }),
  ];
  return sources.filter((source) => typeof source === "object");
}
