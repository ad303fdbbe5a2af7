import type { ServingStatus } from "../certs/serving.ts";
import type { Reason } from "../hostmap/types.ts";
import type { Health, Page } from "../telemetry/health.ts";
import type { InjectionCache } from "./injection-cache.ts";

/** What the webhook has, as of now. */
export interface WebhookState {
  map: InjectionCache | undefined;
  /** Why the newest publication is not the one in use, if so. */
  mapProblem: Reason | undefined;
  serving: () => ServingStatus;
  draining: boolean;
}

/**
 * Ready once a serving certificate and a map are loaded, until the pod is told to stop. A line a condition, in the form of the API
 * server's own `/readyz?verbose`. A problem with something newer is said and changes nothing: the last good one serves.
 */
export function webhookReadiness(state: Readonly<WebhookState>): Health {
  const { map, mapProblem, draining } = state;
  const { notAfter, problem } = state.serving();
  const checks = [
    {
      ok: notAfter !== undefined,
      text: line("certificate", notAfter && `expires ${new Date(notAfter).toISOString()}`, problem),
    },
    { ok: map !== undefined, text: line("map", map && `revision ${map.revision}, ${map.names} names`, mapProblem) },
    { ok: !draining, text: draining ? "stopping" : "not stopping" },
  ];
  return {
    ok: checks.every(({ ok }) => ok),
    text: checks.map(({ ok, text }) => `[${ok ? "+" : "-"}] ${text}`).join("\n"),
  };
}

/** `/loaded`: what the controller asks each replica by its pod IP before it restarts a workload. `revision` is null before the first map. */
export function loadedPage(state: Readonly<WebhookState>): Page {
  const { map } = state;
  const maxNames = map?.choose(undefined).cap ?? 0;
  const body = JSON.stringify({ revision: map?.revision ?? null, names: map?.names ?? 0, maxNames });
  return { contentType: "application/json", body: `${body}\n` };
}

function line(what: string, has: string | undefined | 0, problem: Reason | undefined): string {
  const missing = problem === undefined ? "" : ` (${problem.code}: ${problem.text})`;
  return `${what}: ${has || "not loaded"}${missing}`;
}
