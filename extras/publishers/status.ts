import type { Reason } from "#hostmap/types.ts";
import { hasCode, statusOf } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { PUBLISHERS } from "./names.ts";
import type { PublisherState } from "./publisher-state.ts";
import { PublisherStateStore } from "./publisher-state-store.ts";

/** Reports of the publishers that have one, by name. */
export type PublisherStates = Readonly<Record<string, PublisherState | Reason>>;

/**
 * Reads the reports with the rights of the ClusterRole switchback-reader. Leaves out reports that it may not read or
 * that are not ours.
 */
export async function readPublishers(
  client: KubeClient,
  namespace: string,
  signal?: AbortSignal,
): Promise<PublisherStates> {
  const states = await Promise.all(
    PUBLISHERS.map(async (name) => {
      try {
        const stored = await new PublisherStateStore(client, namespace, name).read(signal);
        return stored === undefined ? [] : [[name, stored.state] as const];
      } catch (error) {
        if (statusOf(error) === 403 || hasCode(error, "data-corrupt")) return [];
        throw error;
      }
    }),
  );
  return Object.fromEntries(states.flat());
}

/** A line for each publisher. `now`: milliseconds since 1970. */
export function publisherLines(states: PublisherStates, now: number): string[] {
  return Object.entries(states).map(([name, state]) => printable(`publisher ${name}: ${describe(state, now)}`));
}

function describe(state: PublisherState | Reason, now: number): string {
  if ("code" in state) return `${state.text} (${state.code})`;
  const { names, leftOut, place, behindSince, answered, problem, leaving, takenBack } = state;
  if (leaving !== undefined) return `is being taken out of the ${place}`;
  const reason = problem === undefined ? "" : `; ${problem.text} (${problem.code})`;
  const last = takenBack.at(-1);
  const taken =
    last === undefined
      ? ""
      : `; taken back ${takenBack.length} time(s), last by ${last.by ?? "somebody"} at ${time(last.at)}`;
  if (state.revision === undefined) return `nothing is published in the ${place}${reason}${taken}`;
  const more = leftOut === 0 ? "" : `, ${leftOut} left out`;
  const since = state.since === undefined ? "" : ` since ${time(state.since)}`;
  const late =
    behindSince === undefined
      ? ""
      : `, the newest map not yet answered for ${Math.round((now - behindSince) / 1000)} s`;
  const current = behindSince === undefined && answered !== undefined ? ", answered by the cluster's DNS" : "";
  return `${names} names in the ${place}${since}${more}${current}${late}${reason}${taken}`;
}

function time(at: number): string {
  return new Date(at).toISOString();
}
