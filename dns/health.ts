import type { Reason } from "../hostmap/types.ts";
import type { Health } from "../telemetry/health.ts";

/** The current state of the sidecar. */
export interface DnsState {
  /** The map that CoreDNS has files of. */
  written: { readonly revision: string; readonly names: number } | undefined;
  /** Why the newest map is not in them; undefined if it is. */
  problem: Reason | undefined;
}

/**
 * Ready once a map is written; CoreDNS is started then. A problem with a newer map is only reported: a resolver with the last good map
 * is worth more than none.
 */
export function dnsReadiness({ written, problem }: Readonly<DnsState>): Health {
  const what = written === undefined ? "not written" : `revision ${written.revision}, ${written.names} names`;
  const suffix = problem === undefined ? "" : ` (${problem.code}: ${problem.text})`;
  return { ok: written !== undefined, text: `[${written === undefined ? "-" : "+"}] map: ${what}${suffix}` };
}
