import { servingNames } from "#certs/issue.ts";
import { CertManager } from "#certs/manager.ts";
import type { Config } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { EventRecorder } from "#lib/kube/events.ts";
import { steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { Restarter } from "./rollout/restarter.ts";
import type { RestartCounters, RestarterDeps } from "./rollout/workload.ts";

interface LeaderTasksDeps {
  readonly client: KubeClient;
  readonly config: Pick<Config, "namespace" | "certs"> & RestarterDeps["config"];
  readonly clusterDomain: string | undefined;
  readonly log: Logger;
  readonly events: Pick<EventRecorder, "record">;
  readonly counters: RestartCounters;
  readonly observeAgents: RestarterDeps["observeAgents"];
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

const WEBHOOK_SERVICE = "switchback-webhook";
/**
 * Default for the serving certificate if the cluster's domain is not known. The API server always calls
 * `<service>.<namespace>.svc`.
 */
const DEFAULT_DOMAIN = "cluster.local";

/** The leader's tasks besides publishing: it maintains the certificates and restarts workloads. */
export class LeaderTasks {
  readonly #deps: LeaderTasksDeps;
  #certificates: CertManager | undefined;
  #rollouts: Restarter | undefined;

  constructor(deps: LeaderTasksDeps) {
    this.#deps = deps;
  }

  /** Works until `signal` aborts. Resolves when all tasks have ended. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, config, log, events, counters, observeAgents, now } = this.#deps;
    const certificates = this.#manageCertificates(signal);
    const rollouts = new Restarter(
      { client, config, log, events, counters, observeAgents, now: steadyNow, wallClock: now },
      signal,
    );
    this.#certificates = certificates;
    this.#rollouts = rollouts;
    await Promise.all([certificates.done, rollouts.done]);
    // From now on the next leader reports. The state of this replica would soon be outdated.
    this.#certificates = undefined;
    this.#rollouts = undefined;
  }

  /** Undefined: this replica does not lead. */
  get certificates(): Pick<CertManager, "status"> | undefined {
    return this.#certificates;
  }

  /** Undefined: this replica does not lead. */
  get rollouts(): Restarter | undefined {
    return this.#rollouts;
  }

  #manageCertificates(signal: AbortSignal): CertManager {
    const { client, config, clusterDomain, log, now } = this.#deps;
    const { namespace, certs } = config;
    return new CertManager({
      config: certs,
      namespace,
      names: servingNames(WEBHOOK_SERVICE, namespace, clusterDomain ?? DEFAULT_DOMAIN),
      client,
      now,
      log,
      signal,
    });
  }
}
