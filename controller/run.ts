import type { IncomingHttpHeaders } from "node:http";
import { servingNames } from "#certs/issue.ts";
import { CertManager, registerCertMetrics } from "#certs/manager.ts";
import type { Config } from "#lib/config/schema.ts";
import { MAP_NAME } from "#lib/documents/map-format.ts";
import { STATUS_PATH } from "#lib/documents/status-page.ts";
import { livenessOf, type Probes, startHealthServer } from "#lib/http/listen.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { createEventRecorder, eventReason } from "#lib/kube/events.ts";
import { leaderClient } from "#lib/kube/leader-client.ts";
import { type Election, runElection } from "#lib/kube/lease.ts";
import { steadyNow } from "#lib/kube/time.ts";
import { createCompactor } from "#lib/process/heap-compactor.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { Loop } from "./loop.ts";
import { addStatusGauges, type PublicationMetrics, publicationMetrics } from "./metrics.ts";
import { askByHttp } from "./proxy-readiness.ts";
import { createReplica, type HeaderTimes, type Term } from "./replica.ts";
import { addRolloutGauges, restartCounters, rolloutStatus } from "./rollout/report.ts";
import { Restarter } from "./rollout/restarter.ts";
import type { ObserveAgents } from "./rollout/workload.ts";
import { followerStatus, type StatusDocument } from "./status.ts";
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
const WEBHOOK_SERVICE = "switchback-webhook";
/**
 * Default for the serving certificate if the cluster's domain is not known. The API server always calls
 * `<service>.<namespace>.svc`.
 */
const DEFAULT_DOMAIN = "cluster.local";

/**
 * Runs one controller replica. The leader decides about names, publishes the map, writes front Services and
 * certificates, and restarts workloads. A follower waits for the Lease, and serves its health.
 */
export async function runController(config: Config, deps: ControllerDeps): Promise<RunningController> {
  const { client: anyTime, identity, log, observeAgents, now, headerTimes, probes } = deps;
  let election: Election | undefined;
  let term: Term | undefined;
  const client = leaderClient(anyTime, () => election?.leading ?? false);
  const { namespace } = config;
  const clusterDomain = config.clusterDomain ?? deps.clusterDomain;
  const registry = new MetricsRegistry();
  const metrics = publicationMetrics(registry);
  const component = "switchback-controller";
  const events = createEventRecorder({ client: anyTime, component, instance: identity, namespace, log });
  const warn: Warn = (code, note, kind, name) => {
    const regarding = { apiVersion: "v1", kind, namespace, name };
    events.record({ type: "Warning", reason: eventReason(code), action: "Publish", note, regarding });
  };
  const counters = restartCounters(registry);
  const lead = (signal: AbortSignal): Term => {
    const replica = createReplica(config, {
      ...{ client, identity, clusterDomain, log, now, headerTimes, events },
      askProxy: askByHttp(config.proxy.healthPort),
      onFrontLost: (code, note, service) => warn(code, note, "Service", service),
      reporters: reporters(metrics, warn, log),
      mapReaders: () => term?.rollouts.pods.agents?.mapReaders ?? 0,
    });
    const certificates = new CertManager({
      ...{ client, namespace, now, log, signal, config: config.certs },
      names: servingNames(WEBHOOK_SERVICE, namespace, clusterDomain ?? DEFAULT_DOMAIN),
    });
    const times = { now: steadyNow, wallClock: now };
    const { maps } = replica.loop;
    const rollouts = new Restarter({ client, config, maps, log, events, counters, observeAgents, ...times }, signal);
    replica.loop.start(signal);
    return { ...replica, certificates, rollouts };
  };
  const status = () => term?.status() ?? followerStatus(identity);
  addStatusGauges(registry, status, () => term?.leftOut() ?? 0);
  registerCertMetrics(registry, () => term?.certificates.status());
  addRolloutGauges(registry, () => term?.rollouts.pods);
  const statusKey = new StatusKey({ client: anyTime, namespace, log });
  const own = probesOf(() => term);
  const health = await startHealthServer({
    ...(probes?.(own) ?? own),
    ...{ address: config.controller.address, port: config.controller.port, registry },
    pages: { [STATUS_PATH]: statusPage(statusKey, status, () => term) },
  });
  log.info({ port: health.port, namespace }, "listening");
  const compacting = compactOnceSynced(() => term?.loop);
  // The commands read the key before they ask for the page.
  void statusKey.refresh();
  election = runElection({
    ...config.controller,
    ...{ client: anyTime, namespace, name: LEASE_NAME, identity, log },
    onStartedLeading: async (signal) => {
      term = lead(signal);
      await Promise.all([term.certificates.done, term.rollouts.done]);
      // From now on the next leader reports.
      const { loop } = term;
      term = undefined;
      await loop.stop();
    },
  });
  const stop = async (): Promise<void> => {
    clearInterval(compacting);
    // Waits for the leader's work to end.
    await election?.stop();
    await health.close();
  };
  return { healthPort: health.port, stop };
}

/** The page `/status`, for requests with the key. */
function statusPage(statusKey: StatusKey, status: () => StatusDocument, term: () => Term | undefined) {
  const full = (query: URLSearchParams) => {
    const { certificates, rollouts } = term() ?? {};
    const running = rollouts && rolloutStatus(rollouts.pods, query.get("in") ?? undefined);
    return { ...status(), certificates: certificates?.status(), running };
  };
  return {
    refusal: (headers: IncomingHttpHeaders) => statusKey.refusal(headers),
    takesQuery: true,
    render: (query: URLSearchParams) => ({ contentType: "application/json", body: `${JSON.stringify(full(query))}\n` }),
  };
}

/** A follower waits for the Lease, and is ready for it. */
function probesOf(term: () => Term | undefined): Probes {
  return {
    live: () => livenessOf(Math.max(term()?.loop.inactiveMs ?? 0, term()?.rollouts.pods.inactiveMs ?? 0)),
    ready: () => {
      const { loop, source } = term() ?? {};
      if (loop === undefined || loop.synced) return { ok: true, text: "ok" };
      const waiting = source?.state().filter(({ synced }) => !synced) ?? [];
      return { ok: false, text: `not synced: ${waiting.map(({ name }) => name).join(", ") || "own objects"}` };
    },
  };
}

/** The first lists leave much garbage. Collects it once they are read and the first map is published. */
function compactOnceSynced(loop: () => Loop | undefined): NodeJS.Timeout {
  const compactor = createCompactor(globalThis.gc);
  compactor.recordActivity();
  return setInterval(() => {
    if (!loop()?.synced) compactor.recordActivity();
    compactor.collectIfIdle();
  }, COMPACT_AFTER_MS).unref();
}

/** Writes an Event about one of our own objects. */
type Warn = (code: string, note: string, kind: "ConfigMap" | "Service", name: string) => void;

/** Reports what the loop does: in metrics, in the log and as Events. */
function reporters(
  metrics: PublicationMetrics,
  warn: Warn,
  log: Logger,
): Pick<ConstructorParameters<typeof Loop>[0], "onPublished" | "onFailed" | "onHeld"> {
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
      warn("removal-held", `${held}; held back until ${new Date(until).toISOString()}`, "ConfigMap", MAP_NAME);
    },
  };
}
