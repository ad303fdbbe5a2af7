import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { shortHash } from "#hostmap/hash.ts";
import { show } from "#hostmap/hostnames.ts";
import { isAddress, parseHosts, readHostsLine } from "#hostmap/hosts-text.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { TextFile } from "./files.ts";

/** A part of a hosts file that is left out, and why. */
interface LeftOut {
  /** Starts at 1. */
  readonly line: number;
  readonly reason: Reason;
}

/** Has no settings of an install: only the refusals that no setting can override. */
const POLICY = createClaimPolicy(
  {
    allowDomains: [],
    denyDomains: [],
    namespaces: [],
    denyNamespaces: [],
    maxNamesPerNamespace: Number.POSITIVE_INFINITY,
  },
  undefined,
);
const WILDCARD: Reason = { code: "wildcard", text: "a hosts file cannot hold a wildcard" };

/**
 * Reads a user's hosts file. Its names must pass the same policy as an Ingress's names, and are refused with the same
 * reason codes. Throws `input-invalid` if no name is left: an empty map would remove the names that manifests have.
 */
export function readHostsFile({ name, text }: TextFile): { map: PublishedMap; leftOut: LeftOut[] } {
  const leftOut: LeftOut[] = [];
  const accepted: string[] = [];
  for (const [index, raw] of text.split("\n").entries()) {
    const { entries, refused } = readEntries(raw);
    accepted.push(...entries);
    for (const reason of refused) leftOut.push({ line: index + 1, reason });
  }
  const entries = parseHosts(accepted.join("\n"));
  if (entries.size === 0) throw new SwitchbackError("input-invalid", noNames(name, leftOut));
  return { map: publishedMapOf(shortHash(text), entries), leftOut };
}

/** Splits one line into a line for each accepted name. `refused` has the reasons against the other names. */
function readEntries(raw: string): { entries: string[]; refused: Reason[] } {
  const { address, names, wildcard } = readHostsLine(raw);
  // The published map lists wildcards in comments.
  if (address === "" || wildcard) return { entries: [], refused: [] };
  if (!isAddress(address)) {
    const reason = { code: "address-invalid", text: `${show(address)} is not an IP address` };
    return { entries: [], refused: [reason] };
  }
  if (names.length === 0) {
    return { entries: [], refused: [{ code: "name-invalid", text: `no hostname follows ${address}` }] };
  }
  const entries: string[] = [];
  const refused: Reason[] = [];
  for (const hostname of names) {
    const reason = refusalOf(hostname);
    if (reason === undefined) entries.push(`${address} ${hostname}`);
    else refused.push(reason);
  }
  return { entries, refused };
}

function refusalOf(hostname: string): Reason | undefined {
  const from = { kind: "", namespace: "", name: "" };
  const { refused, name } = POLICY({ hostname, target: "", from, created: "" });
  return refused ?? (isWildcard(name) ? WILDCARD : undefined);
}

function noNames(name: string, [first]: readonly LeftOut[]): string {
  const example = "accepted are lines such as `198.51.100.9 shop.example.com`";
  if (first === undefined) return `${name}: has no names; ${example}`;
  return (
    `${name}:${first.line}: no name of the file can be mapped; ${first.reason.text} (${first.reason.code}); ` +
    `${example}`
  );
}
