import type { ServingStatus } from "#certs/serving.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Health, Page } from "#lib/http/listen.ts";
import type { InjectionCache } from "./injection-cache.ts";

/** The current state of the webhook. */
export interface WebhookState {
  map: InjectionCache | undefined;
  /** Why the newest publication is not in use; undefined if it is. */
  mapProblem: Reason | undefined;
  readonly serving: () => ServingStatus;
  draining: boolean;
}

/**
 * Ready once a serving certificate and a map are loaded, until the pod has to stop. The text has one line per
 * condition, like the API server's `/readyz?verbose`. A problem with a newer certificate or map is only reported,
 * because the last good one stays in use.
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

/** The page, for people and tests, that says which map this replica uses. `revision` is null before the first map. */
export const LOADED_PATH = "/loaded";

export function renderLoadedPage({ map }: Readonly<WebhookState>): Page {
  const maxNames = map?.select(undefined).cap ?? 0;
  const body = JSON.stringify({ revision: map?.revision ?? null, names: map?.names ?? 0, maxNames });
  return { contentType: "application/json", body: `${body}\n` };
}

function line(subject: string, loaded: string | undefined | 0, problem: Reason | undefined): string {
  const suffix = problem === undefined ? "" : ` (${problem.code}: ${problem.text})`;
  return `${subject}: ${loaded || "not loaded"}${suffix}`;
}
