import type { Config } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { clusterLookup } from "./dnscheck/lookup.ts";
import { verifiedSource } from "./dnscheck/verified-source.ts";
import { DnsVerifier } from "./dnscheck/verifier.ts";
import { customSource } from "./sources/custom.ts";
import { gatewaySource } from "./sources/gateway.ts";
import { InClusterNames, startedAfter } from "./sources/in-cluster-names.ts";
import { ingressSource } from "./sources/ingress.ts";
import { mergeSources } from "./sources/merge.ts";
import { namespaceDomains } from "./sources/namespace-domains.ts";
import type { Source, UnresolvedSource } from "./sources/types.ts";
import { TargetDiscovery } from "./targets/discovery.ts";
import { publishedTargetNames } from "./targets/published-targets.ts";
import { resolveSource } from "./targets/resolve-claims.ts";
import {
  admittedOnly,
  classCatalog,
  classResolver,
  type TargetCatalog,
  type TargetResolver,
} from "./targets/resolver.ts";

/** How targets are resolved: by class alone, or also by the cluster's Services. */
export function targetsOf(
  config: Config,
  client: KubeClient,
  log: Logger,
): { resolver: TargetResolver; catalog: TargetCatalog } {
  const admitted = (resolver: TargetResolver) => (config.policy.requireAdmitted ? admittedOnly(resolver) : resolver);
  if (config.discovery.enabled) {
    const published = publishedTargetNames({ client, namespace: config.namespace, log });
    const discovery = new TargetDiscovery({ client, config, log, published });
    return { resolver: admitted(discovery), catalog: discovery };
  }
  return { resolver: admitted(classResolver(config.targets)), catalog: classCatalog(config.targets) };
}

interface ClaimsDeps {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly files: UnresolvedSource | undefined;
}

/** The source of a directory of files. Its parser, and what validates their objects, are loaded only where there is one. */
export async function filesOf({ sources: { directory } }: Config): Promise<UnresolvedSource | undefined> {
  if (directory === undefined) return undefined;
  return (await import("./sources/yaml-directory.ts")).directorySource({ directory });
}

function sourceOf(config: Config, { client, log, files }: ClaimsDeps, resolver: TargetResolver): Source {
  const { ingress, gateway } = config.sources;
  const sources: UnresolvedSource[] = [];
  if (ingress.enabled) sources.push(ingressSource({ client, log }));
  if (gateway.enabled) sources.push(gatewaySource({ client, config: config.sources, log }));
  const custom = customSource({ client, config: config.sources, log });
  if (custom !== undefined) sources.push(custom);
  if (files !== undefined) sources.push(files);
  return resolveSource(mergeSources(sources), resolver);
}

/** Evaluates claims again. */
export interface Reevaluation {
  /** Those of a namespace, after its permissions changed. */
  readonly reevaluate: (namespace: string) => void;
  /** Those whose name stood for a Service. */
  readonly reevaluateServiceNames: () => void;
}

/** The source of all claims, and what they are judged by. */
export function claimsOf(config: Config, deps: ClaimsDeps, resolver: TargetResolver, reevaluation: () => Reevaluation) {
  const { client, log } = deps;
  const { source, verifier } = verifying(config, sourceOf(config, deps, resolver), log);
  const domains = config.policy.namespaceAnnotation
    ? namespaceDomains({ client, log, onChange: (changed) => reevaluation().reevaluate(changed) })
    : undefined;
  const names = new InClusterNames({
    client,
    log,
    mayListServices: config.discovery.enabled,
    onFreed: () => reevaluation().reevaluateServiceNames(),
  });
  return {
    source: startedAfter(names, domains === undefined ? source : mergeSources([source, domains])),
    verifier,
    domainsOf: domains?.domainsOf,
    inCluster: (name: string) => names.reasonOf(name),
  };
}

/** Names are resolved concurrently: with `warn` nothing waits for the result. */
function verifying(config: Config, source: Source, log: Logger): { source: Source; verifier: DnsVerifier | undefined } {
  const { verifyDns, dnsServers } = config.policy;
  if (verifyDns === "off") return { source, verifier: undefined };
  const verifier: DnsVerifier = new DnsVerifier({
    lookup: clusterLookup(dnsServers),
    now: () => performance.now(),
    log,
    onVerdict: (name) => verified.onVerdict(name),
  });
  const verified = verifiedSource(source, verifier, verifyDns === "enforce");
  return { source: verified.source, verifier };
}
