import type { IncomingHttpHeaders } from "node:http";
import { servingNames } from "#certs/issue.ts";
import { CertManager, registerCertMetrics } from "#certs/manager.ts";
import type { Config } from "#lib/config/schema.ts";
import { STATUS_PATH } from "#lib/documents/status-page.ts";
import { livenessOf, type Probes, startHealthServer } from "#lib/http/listen.ts";
import { createEventRecorder, eventReason } from "#lib/kube/events.ts";
import { leaderClient } from "#lib/kube/leader-client.ts";
import { type Election, runElection } from "#lib/kube/lease.ts";
import { steadyNow } from "#lib/kube/time.ts";
import { collectGarbage } from "#lib/process/collect-garbage.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { Loop } from "./loop.ts";
import { addStatusGauges, publicationMetrics } from "./metrics.ts";
import { createReplica, type ReplicaDeps, type Term } from "./replica.ts";
import { addRestartMetrics, rolloutStatus } from "./rollout/report.ts";
import { Restarter } from "./rollout/restarter.ts";
import type { ObserveAgents } from "./rollout/workload.ts";
import { followerStatus, type StatusDocument } from "./status.ts";
import { StatusKey } from "./status-key.ts";

/** The dependencies of a controller. Its identity is the pod's name, and the holder of the Lease. */
interface ControllerDeps
  extends Pick<ReplicaDeps, "client" | "identity" | "clusterDomain" | "log" | "now" | "headerTimes"> {
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
const COLLECT_AFTER_MS = 5_000;
const WEBHOOK_SERVICE = "switchback-webhook";
/** In the serving certificate, if the domain is not known. The API server calls `<service>.<namespace>.svc`. */
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
  const warn: ReplicaDeps["warn"] = (code, note, kind, name) => {
    const regarding = { apiVersion: "v1", kind, namespace, name };
    events.record({ type: "Warning", reason: eventReason(code), action: "Publish", note, regarding });
  };
  const counters = addRestartMetrics(registry, () => term?.rollouts.pods);
  const lead = (signal: AbortSignal): Term => {
    const replica = createReplica(config, {
      ...{ client, identity, clusterDomain, log, now, headerTimes, events, metrics, warn },
      mapReaders: () => term?.rollouts.pods.agents?.mapReaders ?? 0,
    });
    const certificates = new CertManager({
      ...{ client, namespace, now, log, signal, config: config.certs },
      names: servingNames(WEBHOOK_SERVICE, namespace, clusterDomain ?? DEFAULT_DOMAIN),
    });
    const { maps } = replica.loop;
    const rollouts = new Restarter({
      ...{ client, config, maps, log, events, counters, observeAgents, signal },
      ...{ now: steadyNow, wallClock: now },
    });
    replica.loop.start(signal);
    return { ...replica, certificates, rollouts };
  };
  const status = () => term?.status() ?? followerStatus(identity);
  addStatusGauges(registry, status, () => term?.leftOut() ?? 0);
  registerCertMetrics(registry, () => term?.certificates.status());
  const statusKey = new StatusKey({ client: anyTime, namespace, log });
  const own = probesOf(() => term);
  const health = await startHealthServer({
    ...(probes?.(own) ?? own),
    ...{ address: config.address, port: config.controller.port, registry },
    pages: { [STATUS_PATH]: statusPage(statusKey, status, () => term) },
  });
  log.info({ port: health.port, namespace }, "listening");
  const collecting = collectOnceSynced(() => term?.loop);
  // The commands read the key before they ask for the page.
  void statusKey.refresh();
  election = runElection({
    ...{ client: anyTime, namespace, name: LEASE_NAME, identity, log },
    leaseSeconds: config.controller.leaseSeconds,
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
    clearInterval(collecting);
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

/** The first lists leave much garbage. Collects it once they are read, in each term. */
function collectOnceSynced(loop: () => Loop | undefined): NodeJS.Timeout {
  let collected: Loop | undefined;
  return setInterval(() => {
    const current = loop();
    if (!current?.synced || current === collected) return;
    collected = current;
    collectGarbage();
  }, COLLECT_AFTER_MS).unref();
}
