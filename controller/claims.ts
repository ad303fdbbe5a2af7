import type { DomainsOf } from "#hostmap/namespace-claims.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { clusterLookup } from "./dnscheck/lookup.ts";
import { type DnsAnswers, DnsSweep, type NameDecisions } from "./dnscheck/sweep.ts";
import { Pipeline } from "./pipeline.ts";
import { ClaimBudget } from "./sources/claim-budget.ts";
import { customSource } from "./sources/custom.ts";
import { gatewaySource } from "./sources/gateway.ts";
import { InClusterNames } from "./sources/in-cluster-names.ts";
import { ingressSource } from "./sources/ingress-hosts.ts";
import { istioSource } from "./sources/istio.ts";
import { Namespaces } from "./sources/namespaces.ts";
import type { Source } from "./sources/types.ts";
import { TargetDiscovery } from "./targets/discovery.ts";
import type { TargetCatalog, TargetHeaders, TargetLocations, TargetResolver } from "./targets/resolver.ts";

/** How targets are resolved: by class alone, or also by the cluster's Services. */
export function targetsOf(
  config: Pick<Config, "targets" | "discovery">,
  client: KubeClient,
  log: Logger,
  nodes?: ReadonlySet<string>,
): { readonly resolver: TargetResolver; readonly catalog: TargetCatalog; readonly locations: TargetLocations } {
  const isEnabled = config.discovery.enabled;
  const discovery = new TargetDiscovery({ client: isEnabled ? client : undefined, config, log, nodes });
  return { resolver: discovery, catalog: discovery, locations: discovery };
}

interface ClaimsDeps {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly resolver: TargetResolver;
  readonly locations: TargetLocations;
  /** Undefined: no ingress controller is asked for a header. */
  readonly headers?: TargetHeaders | undefined;
  /** They know our own addresses. */
  readonly fronts: { readonly synced: boolean; ownAddresses(): ReadonlySet<string> };
  /** Undefined: not known. */
  readonly clusterDomain: string | undefined;
  /** DNS answers that are already known. If present, no name is looked up. */
  readonly answers?: DnsAnswers | undefined;
  /** The plan that the claims go to. It may be created later. */
  readonly plan: () => Plan;
}

/** All claims, and everything else that decides about them. */
interface Claims {
  /** Synced once everything that decides about claims is known. */
  readonly source: Pipeline;
  readonly verifier: NameDecisions | undefined;
  readonly domainsOf: DomainsOf | undefined;
  readonly inCluster: (name: string) => Reason | undefined;
  /** Claims that were left out since the start. */
  readonly leftOut: () => number;
  /** Tells `plan` which claims to evaluate again. */
  follow(plan: Pick<Plan, "reevaluate" | "reevaluateServiceNames">): void;
}

/** The claims of all configured sources. */
export function claimsOf(
  config: Pick<Config, "sources" | "policy" | "targets" | "discovery">,
  deps: ClaimsDeps,
): Claims {
  const { client, log, plan, locations, fronts } = deps;
  const { maxNamesPerNamespace, verifyDns, namespaceAnnotation } = config.policy;
  const budget = new ClaimBudget({ maxNamesPerNamespace, holderOf: (name) => plan().planned.get(name)?.from });
  const namespaces = new Namespaces({ client, log });
  const sources = configuredSources(config.sources, { ...deps, budget, namespaces });
  const names = new InClusterNames({ client, namespaces, log, mayListServices: config.discovery.enabled });
  const mode = verifyDns === "off" ? "auto" : verifyDns;
  const isReady = () => fronts.synced;
  const dns = verifyDns === "off" ? undefined : dnsOf(config.policy.dnsServers, { ...deps, mode });
  const source = new Pipeline({
    sources,
    resolver: deps.resolver,
    prerequisites: [namespaces],
    names,
    isReady,
    config,
    headers: deps.headers,
    locations,
    dns,
    mode,
    budget,
    plan,
    log,
  });
  return {
    source,
    verifier: dns,
    domainsOf: namespaceAnnotation ? (namespace) => namespaces.domainsOf(namespace) : undefined,
    inCluster: (name) => names.reasonOf(name),
    leftOut: () => budget.leftOut,
    follow(plan) {
      namespaces.follow((namespace, before, after) => {
        if (namespaceAnnotation && before?.domains !== after?.domains) plan.reevaluate(namespace);
      });
      names.follow(() => plan.reevaluateServiceNames());
    },
  };
}

function dnsOf(
  servers: readonly string[],
  deps: ClaimsDeps & Pick<ConstructorParameters<typeof DnsSweep>[0], "mode">,
): DnsSweep {
  const { locations, fronts, clusterDomain, mode, answers: known, log } = deps;
  const ownAddresses = () => fronts.ownAddresses();
  const now = () => performance.now();
  const lookup = clusterLookup(servers);
  return new DnsSweep({ lookup, locations, ownAddresses, clusterDomain, mode, known, now, log });
}

function configuredSources(
  config: Config["sources"],
  deps: ClaimsDeps & { readonly budget: ClaimBudget; readonly namespaces: Namespaces },
): Source[] {
  const { client, budget, namespaces, log, clusterDomain } = deps;
  const { ingress, gateway } = config;
  const sources: Source[] = [];
  if (ingress.enabled) sources.push(ingressSource({ client, budget, log }));
  if (gateway.enabled) sources.push(gatewaySource({ client, config, budget, namespaces, log, clusterDomain }));
  const custom = customSource({ client, config, budget, log });
  if (custom !== undefined) sources.push(custom);
  const istio = istioSource({ client, config, budget, log });
  if (istio !== undefined) sources.push(istio);
  return sources;
}
