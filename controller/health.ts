import type { Config } from "#lib/config/schema.ts";
import { STATUS_PATH } from "#lib/documents/status-page.ts";
import { type HealthServer, livenessOf, type Probes, startHealthServer } from "#lib/http/listen.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { LeaderTasks } from "./leader-tasks.ts";
import type { MapReconciler } from "./map-reconciler.ts";
import { workloadQuery } from "./rollout/report.ts";
import type { ClaimSource } from "./sources/types.ts";
import type { StatusDocument } from "./status.ts";
import type { StatusKey } from "./status-key.ts";

interface HealthDeps {
  readonly registry: MetricsRegistry;
  readonly map: Pick<MapReconciler, "synced" | "inactiveMs">;
  readonly source: Pick<ClaimSource, "state">;
  readonly tasks: Pick<LeaderTasks, "certificates" | "rollouts">;
  readonly status: () => StatusDocument;
  readonly statusKey: Pick<StatusKey, "refusal">;
  /**
   * Derives the server's probes from the controller's own. Needed if the server also answers for other parts of the
   * process.
   */
  readonly probes: ((own: Probes) => Probes) | undefined;
}

/** Serves the probes, the metrics and the status. */
export function serveHealth(
  { address, port }: Pick<Config["controller"], "address" | "port">,
  deps: HealthDeps,
): Promise<HealthServer> {
  const { registry, statusKey, probes } = deps;
  const own = probesOf(deps);
  return startHealthServer({
    ...(probes?.(own) ?? own),
    address,
    port,
    registry,
    pages: {
      [STATUS_PATH]: {
        refusal: (headers) => statusKey.refusal(headers),
        takesQuery: true,
        render: (query) => ({ contentType: "application/json", body: `${JSON.stringify(fullStatus(query, deps))}\n` }),
      },
    },
  });
}

function probesOf({ map, source, tasks }: HealthDeps): Probes {
  return {
    live: () => livenessOf(Math.max(map.inactiveMs, tasks.rollouts?.inactiveMs ?? 0)),
    ready: () => {
      if (map.synced) return { ok: true, text: "ok" };
      const waiting = source.state().filter(({ synced }) => !synced);
      return { ok: false, text: `not synced: ${waiting.map(({ name }) => name).join(", ") || "own objects"}` };
    },
  };
}

function fullStatus(query: URLSearchParams, { tasks, status }: HealthDeps) {
  return {
    ...status(),
    certificates: tasks.certificates?.status(),
    running: tasks.rollouts?.status(workloadQuery(query)),
  };
}
