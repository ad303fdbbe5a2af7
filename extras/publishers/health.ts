import type { Reason } from "#hostmap/types.ts";
import type { Health } from "#lib/http/listen.ts";
import type { PublisherState } from "./publisher-state.ts";

/** What a publisher knows about itself. */
export interface PublisherFacts {
  readonly state: PublisherState;
  /** Why the last step failed. */
  readonly failure: Reason | undefined;
  /** Why the newest map cannot be read. */
  readonly mapProblem: Reason | undefined;
}

/** Ready unless the last step failed. Other problems are for the status, because a restart does not cure them. */
export function publisherReadiness({ state, failure, mapProblem }: PublisherFacts): Health {
  const { revision, names, problem } = state;
  const what = revision === undefined ? "nothing published" : `revision ${revision}, ${names} names`;
  const reason = failure ?? mapProblem ?? problem;
  const suffix = reason === undefined ? "" : ` (${reason.code}: ${reason.text})`;
  return { ok: failure === undefined, text: `[${failure === undefined ? "+" : "-"}] map: ${what}${suffix}` };
}
