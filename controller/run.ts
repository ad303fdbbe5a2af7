import { KubeBundleWriter } from "#certs/ca-bundle-kube.ts";
import type { CertManager } from "#certs/manager.ts";
import { runCertManager } from "#certs/manager.ts";
import { registerCertMetrics } from "#certs/metrics.ts";
import { KubeSecretStore } from "#certs/secret-store-kube.ts";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import type { DomainsOf } from "#hostmap/namespace-claims.ts";
import { Plan } from "#hostmap/plan.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import { INDEX_NAME } from "#lib/documents/map-format.ts";
import type { MapStore } from "#lib/documents/map-store.ts";
import { KubeMapStore } from "#lib/documents/map-store-kube.ts";
import { FIRST_PAGE, STATUS_PATH } from "#lib/documents/status-page.ts";
import { statusOf } from "#lib/errors/errors.ts";
import { type HealthServer, livenessOf, type Probes, startHealthServer } from "#lib/http/listen.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { createEventRecorder, type EventRecorder, eventReason } from "#lib/kube/events.ts";
import { Fence } from "#lib/kube/fence.ts";
import { type Election, runElection } from "#lib/kube/lease.ts";
import { steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { claimsOf, filesOf, type Reevaluation, targetsOf } from "./claims.ts";
import type { DnsVerifier } from "./dnscheck/verifier.ts";
import { FrontReconciler } from "./front-reconciler.ts";
import { MapReconciler } from "./map-reconciler.ts";
import { createControllerMetrics } from "./metrics.ts";
import { askByHttp } from "./proxy-readiness.ts";
import { PublishPacer } from "./publish-pacer.ts";
import { removalRules } from "./removal-rules.ts";
import { registerRolloutMetrics } from "./rollout/metrics.ts";
import { workloadQuery } from "./rollout/rollout-status.ts";
import { RolloutController } from "./rollout/run.ts";
import type { Source } from "./sources/types.ts";
import { statusDocument } from "./status.ts";
import { StatusKey } from "./status-key.ts";
import type { TargetAddresses } from "./target-addresses.ts";
import type { TargetCatalog } from "./targets/resolver.ts";

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
  /** Makes the answers of the health server from the controller's own, where it answers for other parts of the process. */
  readonly probes?: (own: Probes) => Probes;
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
  const files = await filesOf(config);
  const claims = claimsOf(config, { ...deps, files }, targets.resolver, () => observed);
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
    mapReaders: () => term.running?.mapReaders ?? 0,
    ...claims,
    store,
    addresses,
    events,
    catalog: targets.catalog,
  });
  const term: Term = { certs: undefined, running: undefined };
  registerCertMetrics(observed.metrics.registry, () => term.certs?.status());
  const counters = registerRolloutMetrics(observed.metrics.registry, () => term.running?.counts());
  const statusKey = new StatusKey({ client, namespace, log });
  const health = await serveHealth(config, { observed, term, statusKey, probes: deps.probes });
  log.info({ port: health.port, namespace }, "listening");
  observed.loop.start();
  statusKey.start();
  const election: Election = runElection({
    client,
    namespace,
    name: LEASE_NAME,
    identity,
    ...leaseTimes(config),
    log,
    onStartedLeading: async (signal, leaderTerm) => {
      const fence = new Fence({ client, term: leaderTerm, log, onRefused: () => observed.metrics.refusedWrites.inc() });
      addresses.fenceBy(fence);
      observed.loop.lead(signal, () => election.leading);
      term.certs = manageCertificates(config, deps, { signal, fence });
      term.running = new RolloutController(
        { client, config, log, events, counters, fence, now: steadyNow, wallClock: now },
        signal,
      );
      await Promise.all([term.certs.done, term.running.done]);
      // The next leader reports from now on; this replica's state would be outdated soon.
      term.certs = undefined;
      term.running = undefined;
    },
  });
  return { healthPort: health.port, stop: () => stopAll(election, [observed.loop, statusKey], health) };
}

/** The state of a replica while it leads. */
interface Term {
  certs: CertManager | undefined;
  running: RolloutController | undefined;
}

interface Observed extends Reevaluation {
  readonly loop: MapReconciler;
  readonly metrics: ReturnType<typeof createControllerMetrics>;
  readonly status: (options?: { readonly withNames: boolean }) => ReturnType<typeof statusDocument>;
  readonly sources: () => ReturnType<Source["state"]>;
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
    inCluster: (name: string) => Reason | undefined;
    events: EventRecorder;
    mapReaders: () => number;
  },
): Observed {
  const { source, store, addresses, log } = deps;
  const plan = new Plan(
    createClaimPolicy(config.policy, config.clusterDomain ?? deps.clusterDomain, deps.domainsOf),
    config.policy.maxNamesPerNamespace,
    deps.inCluster,
  );
  let revision: string | undefined;
  const status: Observed["status"] = (options) =>
    statusDocument({
      ...options,
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
    pacer: new PublishPacer(config.map, deps.mapReaders),
    // A jump of the wall clock removes no name early, and holds none for longer.
    now: steadyNow,
    log,
    onPublished: (publication, lagMs) => {
      revision = publication.mapRevision;
      metrics.publications.inc();
      metrics.publishedBytes.inc(publication.bytes);
      metrics.lag.observe(lagMs / 1000);
      log.info({ ...publication, lagMs }, "map published");
    },
    onFailed: (error) => {
      metrics.failures.inc();
      if (statusOf(error) === 409) metrics.refusedWrites.inc();
    },
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
  const reevaluateServiceNames = () => {
    plan.reevaluateServiceNames();
    loop.enqueue();
  };
  return { loop, metrics, status, sources: () => source.state(), reevaluate, reevaluateServiceNames };
}

function leaseTimes({ controller }: Config) {
  const { leaseSeconds, renewDeadlineSeconds, retrySeconds } = controller;
  return { leaseSeconds, renewDeadlineSeconds, retrySeconds };
}

function manageCertificates(
  config: Config,
  deps: ControllerDeps,
  { signal, fence }: { readonly signal: AbortSignal; readonly fence: Fence },
): CertManager {
  const { client, log, now } = deps;
  const { namespace } = config;
  return runCertManager({
    config: config.certs,
    namespace,
    serviceName: WEBHOOK_SERVICE,
    clusterDomain: config.clusterDomain ?? deps.clusterDomain ?? DEFAULT_DOMAIN,
    store: new KubeSecretStore({ client, namespace, log, fence }),
    bundleWriter: new KubeBundleWriter({ client, log, fence }),
    now,
    log,
    signal,
  });
}

function probesOf({ loop, sources }: Observed, term: Readonly<Term>): Probes {
  return {
    live: () => livenessOf(Math.max(loop.inactiveMs, term.running?.inactiveMs ?? 0)),
    ready: () =>
      loop.synced
        ? { ok: true, text: "ok" }
        : {
            ok: false,
            text: `not synced: ${
              sources()
                .filter(({ synced }) => !synced)
                .map(({ name }) => name)
                .join(", ") || "own objects"
            }`,
          },
  };
}

interface ServedState {
  readonly observed: Observed;
  readonly term: Readonly<Term>;
  readonly statusKey: StatusKey;
  readonly probes: ControllerDeps["probes"];
}

function serveHealth(config: Config, { observed, term, statusKey, probes }: ServedState): Promise<HealthServer> {
  const { metrics, status } = observed;
  const own = probesOf(observed, term);
  return startHealthServer({
    ...(probes?.(own) ?? own),
    address: config.controller.address,
    port: config.controller.port,
    registry: metrics.registry,
    pages: {
      [STATUS_PATH]: {
        refusal: (headers) => statusKey.refusal(headers),
        takesQuery: true,
        render: (query) => {
          term.running?.requestObservation();
          const workloads = workloadQuery(query);
          return {
            contentType: "application/json",
            body: `${JSON.stringify({
              // Who reads a further page of workloads has the names.
              ...status({ withNames: (workloads.after ?? FIRST_PAGE) === FIRST_PAGE }),
              certificates: term.certs?.status(),
              running: term.running?.status(workloads),
            })}\n`,
          };
        },
      },
    },
  });
}

/** The election waits for the leader's work to end. */
async function stopAll(
  election: Election,
  watching: readonly { stop(): Promise<void> }[],
  health: HealthServer,
): Promise<void> {
  await election.stop();
  await Promise.all([...watching.map((each) => each.stop()), health.close()]);
}

function serviceRef(namespace: string, name: string) {
  return { apiVersion: "v1", kind: "Service", namespace, name };
}
