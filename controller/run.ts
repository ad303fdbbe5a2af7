import { KubeBundleWriter } from "../certs/ca-bundle-kube.ts";
import type { CertManager } from "../certs/manager.ts";
import { runCertManager } from "../certs/manager.ts";
import { registerCertMetrics } from "../certs/metrics.ts";
import { KubeSecretStore } from "../certs/secret-store-kube.ts";
import type { Config } from "../config/schema.ts";
import { createClaimPolicy } from "../hostmap/claim-policy.ts";
import type { DomainsOf } from "../hostmap/namespace-claims.ts";
import { Plan } from "../hostmap/plan.ts";
import type { KubeClient } from "../kube/client.ts";
import { createEventRecorder, type EventRecorder, eventReason } from "../kube/events.ts";
import { type Election, runElection } from "../kube/lease.ts";
import { INDEX_NAME } from "../snapshot/map-format.ts";
import type { MapStore } from "../snapshot/map-store.ts";
import { KubeMapStore } from "../snapshot/map-store-kube.ts";
import { type HealthServer, livenessOf, startHealthServer } from "../telemetry/health.ts";
import type { Logger } from "../telemetry/log.ts";
import { clusterLookup } from "./dnscheck/lookup.ts";
import { verifiedSource } from "./dnscheck/verified-source.ts";
import { DnsVerifier } from "./dnscheck/verifier.ts";
import { FrontReconciler } from "./front-reconciler.ts";
import { MapReconciler } from "./map-reconciler.ts";
import { createControllerMetrics } from "./metrics.ts";
import { askByHttp } from "./proxy-readiness.ts";
import { PublishPacer } from "./publish-pacer.ts";
import { removalRules } from "./removal-rules.ts";
import { registerRolloutMetrics } from "./rollout/metrics.ts";
import { RolloutController } from "./rollout/run.ts";
import { customSource } from "./sources/custom.ts";
import { gatewaySource } from "./sources/gateway.ts";
import { ingressSource } from "./sources/ingress.ts";
import { mergeSources } from "./sources/merge.ts";
import { namespaceDomains } from "./sources/namespace-domains.ts";
import type { Source, UnresolvedSource } from "./sources/types.ts";
import { directorySource } from "./sources/yaml-directory.ts";
import { statusDocument } from "./status.ts";
import type { TargetAddresses } from "./target-addresses.ts";
import { TargetDiscovery } from "./targets/discovery.ts";
import { resolveSource } from "./targets/resolve-claims.ts";
import {
  admittedOnly,
  classCatalog,
  classResolver,
  type TargetCatalog,
  type TargetResolver,
} from "./targets/resolver.ts";

/** The dependencies of a controller. */
interface ControllerDeps {
  readonly client: KubeClient;
  /** The pod's name: holder of the Lease, and what status shows. */
  readonly identity: string;
  /** The cluster's DNS domain; undefined when it could not be found. */
  readonly clusterDomain: string | undefined;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

interface RunningController {
  readonly healthPort: number;
  /** Gives the Lease back and ends every watch. */
  stop(): Promise<void>;
}

const LEASE_NAME = "switchback-controller";
const WEBHOOK_SERVICE = "switchback-webhook";
/** Used in the serving certificate if the domain is not known; the API server calls `<service>.<namespace>.svc` in any case. */
const DEFAULT_DOMAIN = "cluster.local";

/** Runs one controller replica. Every replica observes and plans; the leader also publishes and writes front Services and certificates. */
export async function runController(config: Config, deps: ControllerDeps): Promise<RunningController> {
  const { client, identity, log, now } = deps;
  const { namespace } = config;
  const recorder = { client, component: "switchback-controller", instance: identity, namespace, now, log };
  const events = createEventRecorder(recorder);
  const targets = targetsOf(config, client, log);
  const verified = verifying(config, sourceOf(config, client, targets.resolver, log), log);
  const domains = config.policy.namespaceAnnotation
    ? namespaceDomains({ client, log, onChange: (changed) => observed.reevaluate(changed) })
    : undefined;
  const source = domains === undefined ? verified.source : mergeSources([verified.source, domains]);
  const store = new KubeMapStore({ client, namespace, log });
  const notify = (code: string, note: string, service: string) =>
    events.record({
      type: "Warning",
      reason: eventReason(code),
      action: "Publish",
      note,
      regarding: serviceRef(namespace, service),
    });
  const addresses = new FrontReconciler({
    client,
    config,
    clusterDomain: config.clusterDomain ?? deps.clusterDomain,
    catalog: targets.catalog,
    log,
    notify,
    now,
    askProxy: askByHttp(config.proxy.healthPort),
  });
  const observed = observe(config, {
    ...deps,
    source,
    store,
    addresses,
    events,
    catalog: targets.catalog,
    verifier: verified.verifier,
    domainsOf: domains?.domainsOf,
  });
  const term: Term = { certs: undefined, running: undefined };
  registerCertMetrics(observed.metrics.registry, () => term.certs?.status());
  const counters = registerRolloutMetrics(observed.metrics.registry, () => term.running?.status());
  const health = await serveHealth(config, observed, term);
  log.info({ port: health.port, namespace }, "listening");
  observed.loop.start();
  const election = runElection({
    client,
    namespace,
    name: LEASE_NAME,
    identity,
    ...leaseTimes(config),
    log,
    onStartedLeading: async (signal) => {
      observed.loop.lead(signal);
      term.certs = manageCertificates(config, deps, signal);
      term.running = new RolloutController({ client, config, log, events, counters, now }, signal);
      await Promise.all([term.certs.done, term.running.done]);
      // The next leader reports from now on; this replica's state would be outdated soon.
      term.certs = undefined;
      term.running = undefined;
    },
  });
  return { healthPort: health.port, stop: () => stopAll(election, observed.loop, health) };
}

/** The state of a replica while it leads. */
interface Term {
  certs: CertManager | undefined;
  running: RolloutController | undefined;
}

interface Observed {
  readonly loop: MapReconciler;
  readonly metrics: ReturnType<typeof createControllerMetrics>;
  readonly status: () => ReturnType<typeof statusDocument>;
  /** Evaluates a namespace's claims again, after its permissions changed. */
  readonly reevaluate: (namespace: string) => void;
}

function observe(
  config: Config,
  deps: ControllerDeps & {
    source: Source;
    store: MapStore;
    addresses: TargetAddresses;
    catalog: TargetCatalog;
    verifier: DnsVerifier | undefined;
    domainsOf: DomainsOf | undefined;
    events: EventRecorder;
  },
): Observed {
  const { source, store, addresses, log, now } = deps;
  const plan = new Plan(
    createClaimPolicy(config.policy, config.clusterDomain ?? deps.clusterDomain, deps.domainsOf),
    config.policy.maxNamesPerNamespace,
  );
  let revision: string | undefined;
  const status = () =>
    statusDocument({
      identity: deps.identity,
      source,
      plan,
      addresses,
      catalog: deps.catalog,
      verifier: deps.verifier,
      config,
      synced: () => loop.synced,
      publishedNames: () => loop.publishedNames,
      revision: () => revision,
    });
  const metrics = createControllerMetrics(status);
  const loop = new MapReconciler({
    source,
    plan,
    addresses,
    store,
    removal: removalRules(config),
    pacer: new PublishPacer(config.map),
    now,
    log,
    onPublished: (publication, lagMs) => {
      revision = publication.mapRevision;
      metrics.publications.inc();
      metrics.publishedBytes.inc(publication.bytes);
      metrics.lag.observe(lagMs / 1000);
      log.info({ ...publication, lagMs }, "map published");
    },
    onFailed: () => metrics.failures.inc(),
    onHeld: (names, of, until) =>
      deps.events.record({
        type: "Warning",
        reason: "RemovalHeld",
        action: "Publish",
        note: `${names} of ${of} names would be removed at once; held back until ${new Date(until).toISOString()} or \`switchback confirm\``,
        regarding: { apiVersion: "v1", kind: "ConfigMap", namespace: config.namespace, name: INDEX_NAME },
      }),
  });
  const reevaluate = (namespace: string) => {
    plan.reevaluate(namespace);
    loop.enqueue();
  };
  return { loop, metrics, status, reevaluate };
}

function leaseTimes({ controller }: Config) {
  const { leaseSeconds, renewDeadlineSeconds, retrySeconds } = controller;
  return { leaseSeconds, renewDeadlineSeconds, retrySeconds };
}

/** How targets are resolved: by class alone, or also by the cluster's Services. */
function targetsOf(
  config: Config,
  client: KubeClient,
  log: Logger,
): { resolver: TargetResolver; catalog: TargetCatalog } {
  const admitted = (resolver: TargetResolver) => (config.policy.requireAdmitted ? admittedOnly(resolver) : resolver);
  if (config.discovery.enabled) {
    const discovery = new TargetDiscovery({ client, config, log });
    return { resolver: admitted(discovery), catalog: discovery };
  }
  return { resolver: admitted(classResolver(config.targets)), catalog: classCatalog(config.targets) };
}

function sourceOf(config: Config, client: KubeClient, resolver: TargetResolver, log: Logger): Source {
  const { ingress, gateway, directory } = config.sources;
  const sources: UnresolvedSource[] = [];
  if (ingress.enabled) sources.push(ingressSource({ client, log }));
  if (gateway.enabled) sources.push(gatewaySource({ client, config: config.sources, log }));
  const custom = customSource({ client, config: config.sources, log });
  if (custom !== undefined) sources.push(custom);
  if (directory !== undefined) sources.push(directorySource({ directory }));
  return resolveSource(mergeSources(sources), resolver);
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

function manageCertificates(config: Config, deps: ControllerDeps, signal: AbortSignal): CertManager {
  const { client, log, now } = deps;
  const { namespace } = config;
  return runCertManager({
    config: config.certs,
    namespace,
    serviceName: WEBHOOK_SERVICE,
    clusterDomain: config.clusterDomain ?? deps.clusterDomain ?? DEFAULT_DOMAIN,
    store: new KubeSecretStore({ client, namespace, log }),
    bundleWriter: new KubeBundleWriter({ client, log }),
    now,
    log,
    signal,
  });
}

function serveHealth(config: Config, observed: Observed, term: Readonly<Term>): Promise<HealthServer> {
  const { loop, metrics, status } = observed;
  return startHealthServer({
    address: config.controller.address,
    port: config.controller.port,
    live: () => livenessOf(Math.max(loop.inactiveMs, term.running?.inactiveMs ?? 0)),
    ready: () =>
      loop.synced
        ? { ok: true, text: "ok" }
        : {
            ok: false,
            text: `not synced: ${
              status()
                .sources.filter(({ synced }) => !synced)
                .map(({ name }) => name)
                .join(", ") || "own objects"
            }`,
          },
    registry: metrics.registry,
    pages: {
      "/status": () => ({
        contentType: "application/json",
        body: `${JSON.stringify({
          ...status(),
          certificates: term.certs?.status(),
          running: term.running?.status(),
        })}\n`,
      }),
    },
  });
}

/** The election waits for the leader's work to end. */
async function stopAll(election: Election, loop: MapReconciler, health: HealthServer): Promise<void> {
  await election.stop();
  await Promise.all([loop.stop(), health.close()]);
}

function serviceRef(namespace: string, name: string) {
  return { apiVersion: "v1", kind: "Service", namespace, name };
}
