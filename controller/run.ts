import { registerCertMetrics } from "#certs/manager.ts";
import type { Config } from "#lib/config/schema.ts";
import { MAP_NAME } from "#lib/documents/map-format.ts";
import type { Probes } from "#lib/http/listen.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { createEventRecorder, type EventRecorder, eventReason } from "#lib/kube/events.ts";
import { leaderClient } from "#lib/kube/leader-client.ts";
import { type Election, runElection } from "#lib/kube/lease.ts";
import { createCompactor } from "#lib/process/heap-compactor.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { serveHealth } from "./health.ts";
import { LeaderTasks } from "./leader-tasks.ts";
import type { MapReconciler } from "./map-reconciler.ts";
import { addClaimCounter, addStatusGauges, type PublicationMetrics, publicationMetrics } from "./metrics.ts";
import { askByHttp } from "./proxy-readiness.ts";
import { createReplica, type HeaderTimes } from "./replica.ts";
import { addRolloutGauges, restartCounters } from "./rollout/report.ts";
import type { ObserveAgents } from "./rollout/workload.ts";
import { StatusKey } from "./status-key.ts";

/** The dependencies of a controller. */
interface ControllerDeps {
  readonly client: KubeClient;
  /** The pod's name: the holder of the Lease, also shown in the status. */
  readonly identity: string;
  /** The cluster's DNS domain; undefined if it was not found. */
  readonly clusterDomain: string | undefined;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Only tests set it. */
  readonly headerTimes?: HeaderTimes | undefined;
  /** Observes the agents that update running pods without a restart. Default: there are none. */
  readonly observeAgents?: ObserveAgents | undefined;
  /** Describes the pods that get every name below a wildcard. Default: no pod does. */
  readonly wildcardPods?: string | undefined;
  /**
   * Derives the health server's probes from the controller's own. Needed if the server also answers for other parts
   * of the process.
   */
  readonly probes?: (own: Probes) => Probes;
}

interface RunningController {
  readonly healthPort: number;
  /** Releases the Lease and ends every watch. */
  stop(): Promise<void>;
}

const LEASE_NAME = "switchback-controller";
const COMPACT_AFTER_MS = 3_000;

/**
 * Runs one controller replica. Every replica observes and plans. The leader also publishes the map, and writes front
 * Services and certificates.
 */
export async function runController(config: Config, deps: ControllerDeps): Promise<RunningController> {
  const { client: anyTime, identity, log, observeAgents, now } = deps;
  let election: Election | undefined;
  const client = leaderClient(anyTime, () => election?.leading ?? false);
  const { namespace } = config;
  const clusterDomain = config.clusterDomain ?? deps.clusterDomain;
  const registry = new MetricsRegistry();
  const metrics = publicationMetrics(registry);
  const component = "switchback-controller";
  const events = createEventRecorder({ client: anyTime, component, instance: identity, namespace, log });
  const counters = restartCounters(registry);
  const tasks = new LeaderTasks({ client, config, clusterDomain, log, events, counters, observeAgents, now });
  const { source, map, leftOut, status } = createReplica(config, {
    client,
    identity,
    clusterDomain,
    log,
    now,
    askProxy: askByHttp(config.proxy.healthPort),
    headerTimes: deps.headerTimes,
    wildcardPods: deps.wildcardPods,
    onFrontLost: (code, note, service) => reportFront(events, { code, note, service, namespace }),
    reporters: reporters(metrics, events, { namespace, log }),
    events,
    mapReaders: () => tasks.rollouts?.mapReaders ?? 0,
  });
  addStatusGauges(registry, status);
  addClaimCounter(registry, leftOut);
  registerCertMetrics(registry, () => tasks.certificates?.status());
  addRolloutGauges(registry, () => tasks.rollouts?.counts());
  const statusKey = new StatusKey({ client: anyTime, namespace, log });
  const parts = { registry, map, source, tasks, status, statusKey, probes: deps.probes };
  const health = await serveHealth(config.controller, parts);
  log.info({ port: health.port, namespace }, "listening");
  map.start();
  const compacting = compactOnceSynced(map);
  statusKey.start();
  const lease = { client: anyTime, namespace, name: LEASE_NAME, identity, ...leaseTimes(config.controller), log };
  election = runElection({
    ...lease,
    onStartedLeading: async (signal) => {
      map.lead(signal);
      await tasks.run(signal);
    },
  });
  const stop = async (): Promise<void> => {
    clearInterval(compacting);
    // Waits for the leader's work to end.
    await election?.stop();
    await Promise.all([map.stop(), statusKey.stop(), health.close()]);
  };
  return { healthPort: health.port, stop };
}

/** The first lists leave much garbage. Collects it once they are read and the first map is published. */
function compactOnceSynced(map: Pick<MapReconciler, "synced">): NodeJS.Timeout {
  const compactor = createCompactor(globalThis.gc);
  compactor.recordActivity();
  return setInterval(() => {
    if (!map.synced) compactor.recordActivity();
    compactor.collectIfIdle();
  }, COMPACT_AFTER_MS).unref();
}

/** Reports what the map's reconciler does: in metrics, in the log and as Events. */
function reporters(
  metrics: PublicationMetrics,
  events: Pick<EventRecorder, "record">,
  { namespace, log }: { readonly namespace: string; readonly log: Logger },
): Pick<ConstructorParameters<typeof MapReconciler>[0], "onPublished" | "onFailed" | "onHeld"> {
  return {
    onPublished: (publication, lagMs) => {
      metrics.publications.inc();
      metrics.publishedBytes.inc(publication.bytes);
      metrics.lag.observe(lagMs / 1000);
      log.info({ ...publication, lagMs }, "map published");
    },
    onFailed: () => metrics.failures.inc(),
    onHeld: (names, of, until) => {
      const held = `${names} of ${of} names would be removed at once`;
      events.record({
        type: "Warning",
        reason: "RemovalHeld",
        action: "Publish",
        note: `${held}; held back until ${new Date(until).toISOString()}`,
        regarding: { apiVersion: "v1", kind: "ConfigMap", namespace, name: MAP_NAME },
      });
    },
  };
}

function reportFront(
  events: Pick<EventRecorder, "record">,
  front: { readonly code: string; readonly note: string; readonly service: string; readonly namespace: string },
): void {
  const { code, note, service, namespace } = front;
  events.record({
    type: "Warning",
    reason: eventReason(code),
    action: "Publish",
    note,
    regarding: { apiVersion: "v1", kind: "Service", namespace, name: service },
  });
}

function leaseTimes({ leaseSeconds, renewDeadlineSeconds, retrySeconds }: Config["controller"]) {
  return { leaseSeconds, renewDeadlineSeconds, retrySeconds };
}
