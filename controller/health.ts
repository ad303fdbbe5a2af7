import type { Config } from "#lib/config/schema.ts";
import { STATUS_PATH } from "#lib/documents/status-page.ts";
import { type HealthServer, livenessOf, type Probes, startHealthServer } from "#lib/http/listen.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { Term } from "./replica.ts";
import { rolloutStatus } from "./rollout/report.ts";
import type { StatusDocument } from "./status.ts";
import type { StatusKey } from "./status-key.ts";

interface HealthDeps {
  readonly registry: MetricsRegistry;
  /** Undefined: this replica does not lead. */
  readonly term: () => Term | undefined;
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

function probesOf({ term }: HealthDeps): Probes {
  return {
    live: () => livenessOf(Math.max(term()?.loop.inactiveMs ?? 0, term()?.rollouts.pods.inactiveMs ?? 0)),
    ready: () => {
      const { loop, source } = term() ?? {};
      // A follower waits for the Lease, and is ready for it.
      if (loop === undefined || loop.synced) return { ok: true, text: "ok" };
      const waiting = source?.state().filter(({ synced }) => !synced) ?? [];
      return { ok: false, text: `not synced: ${waiting.map(({ name }) => name).join(", ") || "own objects"}` };
    },
  };
}

function fullStatus(query: URLSearchParams, { term, status }: HealthDeps) {
  const pods = term()?.rollouts.pods;
  return {
    ...status(),
    certificates: term()?.certificates.status(),
    running: pods && rolloutStatus(pods, query.get("in") ?? undefined),
  };
}
