import type { ServingStatus } from "../certs/serving.ts";
import type { Reason } from "../hostmap/types.ts";
import { renderLoaded } from "../snapshot/loaded-page.ts";
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

/** The page of `snapshot/loaded-page.ts`. */
export function loadedPage({ map }: Readonly<WebhookState>): Page {
  return renderLoaded({ mapRevision: map?.revision, maxNames: map?.choose(undefined).cap ?? 0 }, map?.names ?? 0);
}

function line(what: string, has: string | undefined | 0, problem: Reason | undefined): string {
  const missing = problem === undefined ? "" : ` (${problem.code}: ${problem.text})`;
  return `${what}: ${has || "not loaded"}${missing}`;
}
