import type { LeftOut } from "#hostmap/protected-names.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Health } from "#lib/http/listen.ts";

/** The current state of the sidecar. */
export interface DnsState {
  /** The map that CoreDNS has files of. */
  written: { readonly revision: string; readonly names: number } | undefined;
  /** How many of its names are not, and why. */
  leftOut: Pick<LeftOut, "count" | "reason"> | undefined;
  /** Why the newest map is not in them; undefined if it is. */
  problem: Reason | undefined;
  /** The Service whose rollout comes first. */
  waitsFor: string | undefined;
}

/**
 * Ready once a map is written and no other resolver's rollout comes first; CoreDNS is started then. A problem with
 * a newer map is only reported: a resolver with the last good map is worth more than none.
 */
export function dnsReadiness({ written, leftOut, problem, waitsFor }: Readonly<DnsState>): Health {
  const what = written === undefined ? "not written" : `revision ${written.revision}, ${written.names} names`;
  const reason = problem ?? leftOut?.reason;
  const suffix = reason === undefined ? "" : ` (${reason.code}: ${reason.text})`;
  const map = `[${written === undefined ? "-" : "+"}] map: ${what}${suffix}`;
  if (waitsFor === undefined) return { ok: written !== undefined, text: map };
  return { ok: false, text: `${map}\n[-] rollout: ${waitsFor} comes first, and does not answer as this rollout yet` };
}
