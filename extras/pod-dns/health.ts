import type { LeftOut } from "#extras/left-out.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Health } from "#lib/http/listen.ts";

/** The current state of the sidecar. */
export interface DnsState {
  /** The map in CoreDNS' files. */
  written: { readonly revision: string; readonly names: number } | undefined;
  /** How many names of that map are not in the files, and why. */
  leftOut: Pick<LeftOut, "count" | "reason"> | undefined;
  /** Why the newest map is not in the files. Undefined if it is. */
  problem: Reason | undefined;
  /** Service whose rollout must come first. Undefined if there is none to wait for. */
  waitsFor: string | undefined;
}

/**
 * Ready when a map is written and no other resolver's rollout must come first. CoreDNS then starts. A problem with a
 * newer map is only reported, because a resolver with the last good map is better than none.
 */
export function dnsReadiness({ written, leftOut, problem, waitsFor }: Readonly<DnsState>): Health {
  const what = written === undefined ? "not written" : `revision ${written.revision}, ${written.names} names`;
  const reason = problem ?? leftOut?.reason;
  const suffix = reason === undefined ? "" : ` (${reason.code}: ${reason.text})`;
  const map = `[${written === undefined ? "-" : "+"}] map: ${what}${suffix}`;
  if (waitsFor === undefined) return { ok: written !== undefined, text: map };
  return { ok: false, text: `${map}\n[-] rollout: waiting until ${waitsFor} answers for this rollout` };
}
