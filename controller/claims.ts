import type { DomainsOf } from "#hostmap/namespace-claims.ts";
import type { Plan } from "#hostmap/plan.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { AddressBook } from "./dnscheck/address-book.ts";
import { type DnsAnswers, KnownAnswers } from "./dnscheck/known-answers.ts";
import { clusterLookup } from "./dnscheck/lookup.ts";
import { OtherTools } from "./dnscheck/other-tools.ts";
import { verifiedSource } from "./dnscheck/verified-source.ts";
import { DnsVerifier, type NameDecisions } from "./dnscheck/verifier.ts";
import { customSource } from "./sources/custom.ts";
import { gatewaySource } from "./sources/gateway.ts";
import { InClusterNames } from "./sources/in-cluster-names.ts";
import { ingressSource } from "./sources/ingress-hosts.ts";
import { istioSource } from "./sources/istio.ts";
import { namespaceDomains } from "./sources/namespace-domains.ts";
import type { Source, SourceState, UnresolvedSource } from "./sources/types.ts";
import { withChoices } from "./targets/chosen-target.ts";
import { TargetDiscovery } from "./targets/discovery.ts";
import { publishedTargetNames } from "./targets/published-targets.ts";
import { resolveSources } from "./targets/resolve-claims.ts";
import {
  admittedOnly,
  classCatalog,
  classResolver,
  type TargetCatalog,
  type TargetHeaders,
  type TargetLocations,
  type TargetResolver,
  UNKNOWN_LOCATIONS,
} from "./targets/resolver.ts";

/** How targets are resolved: by class alone, or also by the cluster's Services. */
export function targetsOf(
  config: Pick<Config, "namespace" | "policy" | "targets" | "discovery">,
  client: KubeClient,
  log: Logger,
  nodes?: ReadonlySet<string>,
): { readonly resolver: TargetResolver; readonly catalog: TargetCatalog; readonly locations: TargetLocations } {
  const { policy } = config;
  const admitted = (resolver: TargetResolver) =>
    withChoices(policy.requireAdmitted ? admittedOnly(resolver) : resolver, config);
  if (config.discovery.enabled) {
    const published = publishedTargetNames({ client, namespace: config.namespace, log });
    const discovery = new TargetDiscovery({ client, config, log, published, nodes });
    return { resolver: admitted(discovery), catalog: discovery, locations: discovery };
  }
  const [resolver, catalog] = [classResolver(config.targets), classCatalog(config)];
  return { resolver: admitted(resolver), catalog, locations: UNKNOWN_LOCATIONS };
}

interface ClaimsDeps {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly resolver: TargetResolver;
  /** Undefined: no ingress controller is asked for a header. */
  readonly headers?: TargetHeaders | undefined;
  /** Undefined: not known. */
  readonly clusterDomain: string | undefined;
  readonly book: AddressBook;
  /** DNS answers that are already known. If present, no name is looked up. */
  readonly answers?: DnsAnswers | undefined;
}

/** All claims, and everything else that decides about them. */
interface Claims {
  /** Synced once everything that decides about claims is known. */
  readonly source: Source;
  readonly verifier: NameDecisions | undefined;
  readonly domainsOf: DomainsOf | undefined;
  readonly inCluster: (name: string) => Reason | undefined;
  /** Tells `plan` which claims to evaluate again. */
  follow(plan: Pick<Plan, "reevaluate" | "reevaluateServiceNames">): void;
}

/** The claims of all configured sources. */
export async function claimsOf(
  { sources, policy, discovery }: Pick<Config, "sources" | "policy" | "discovery">,
  deps: ClaimsDeps,
): Promise<Claims> {
  const { client, log } = deps;
  const configured = await configuredSources(sources, deps);
  const { source, verifier } = verifying(policy, configured, deps);
  const domains = policy.namespaceAnnotation ? namespaceDomains({ client, log }) : undefined;
  const names = new InClusterNames({ client, log, mayListServices: discovery.enabled });
  return {
    source: startedAfter(domains === undefined ? [names] : [names, domains], source),
    verifier,
    domainsOf: domains?.domainsOf,
    inCluster: (name) => names.reasonOf(name),
    follow(plan) {
      domains?.follow((namespace) => plan.reevaluate(namespace));
      names.follow(() => plan.reevaluateServiceNames());
    },
  };
}

/** What has to be known before any claim is evaluated. */
interface Prerequisite {
  start(onSynced: () => void): void;
  state(): SourceState[];
  stop(): Promise<void>;
}

/** The source, started once all prerequisites are known. */
function startedAfter(prerequisites: readonly Prerequisite[], source: Source): Source {
  return {
    start(sink, onSynced) {
      const waiting = new Set(prerequisites);
      for (const one of prerequisites) {
        one.start(() => {
          if (waiting.delete(one) && waiting.size === 0) source.start(sink, onSynced);
        });
      }
    },
    state: () => [...prerequisites, source].flatMap((one) => one.state()),
    resourceOf: (object) => source.resourceOf?.(object),
    keep: (lineOf) => source.keep?.(lineOf),
    stop: async () => {
      await Promise.all([...prerequisites, source].map((one) => one.stop()));
    },
  };
}

async function configuredSources(
  config: Config["sources"],
  { client, log, clusterDomain }: ClaimsDeps,
): Promise<UnresolvedSource[]> {
  const { ingress, gateway, directory } = config;
  const sources: UnresolvedSource[] = [];
  if (ingress.enabled) sources.push(ingressSource({ client, log }));
  if (gateway.enabled) sources.push(gatewaySource({ client, config, log, clusterDomain }));
  const custom = customSource({ client, config, log });
  if (custom !== undefined) sources.push(custom);
  const istio = istioSource({ client, config, log });
  if (istio !== undefined) sources.push(istio);
  if (directory !== undefined) {
    // Only a directory source needs the YAML parser and the validation of objects, so load them only for it.
    const { directorySource } = await import("./sources/yaml-directory.ts");
    sources.push(directorySource({ directory }));
  }
  return sources;
}

/** The source whose names are looked up, and its verifier. The verifier also learns of changes of Services. */
function verifying(
  { verifyDns: mode, dnsServers }: Config["policy"],
  sources: readonly UnresolvedSource[],
  { resolver, headers, book, answers, clusterDomain, log }: ClaimsDeps,
): Pick<Claims, "source" | "verifier"> {
  if (mode === "off") return { source: resolveSources(sources, resolver, headers), verifier: undefined };
  if (answers !== undefined) {
    const known = new KnownAnswers({ answers, book, mode });
    return { source: known.source(resolveSources(sources, resolver, headers)), verifier: known };
  }
  const lookup = clusterLookup(dnsServers);
  const verifier = new DnsVerifier({
    lookup,
    book,
    tools: new OtherTools(lookup, clusterDomain),
    mode,
    now: () => performance.now(),
    log,
  });
  const resolved = resolveSources(sources, followedBy(resolver, verifier), headers);
  return { source: verifiedSource(resolved, { verifier, mode, book }), verifier };
}

/** Wraps the resolver: when its answers change, the verifier checks the addresses of the targets again. */
function followedBy(resolver: TargetResolver, verifier: DnsVerifier): TargetResolver {
  return {
    start: (onChange, onSynced) => {
      resolver.start(() => {
        onChange();
        verifier.reconsider();
      }, onSynced);
    },
    resolve: (hints, incumbent) => resolver.resolve(hints, incumbent),
    named: (target, hints) => resolver.named(target, hints),
    warningOf: (target, ports) => resolver.warningOf?.(target, ports),
    mayKeep: (target, hints, reason) => resolver.mayKeep?.(target, hints, reason) === true,
    state: () => resolver.state(),
    stop: () => resolver.stop(),
  };
}
