import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { shortHash } from "#hostmap/hash.ts";
import { show } from "#hostmap/hostnames.ts";
import { isAddress, parseHosts, readHostsLine } from "#hostmap/hosts-text.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { TextFile } from "../kube-file.ts";

/** Has no settings of an install: only the refusals that no setting can override. */
const SETTINGS = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [] };
const POLICY = createClaimPolicy({ ...SETTINGS, maxNamesPerNamespace: Number.POSITIVE_INFINITY }, undefined);

/**
 * Reads a user's hosts file. Its names must pass the same policy as an Ingress's names, and are refused with the same
 * reason codes. `leftOut` has a line for each refused part. Throws `input-invalid` if no name is left: an empty map
 * would remove the names that manifests have.
 */
export function readHostsFile({ name, text }: TextFile): { map: PublishedMap; leftOut: string[] } {
  const leftOut: string[] = [];
  const accepted: string[] = [];
  for (const [index, raw] of text.split("\n").entries()) {
    const { address, names, wildcard } = readHostsLine(raw);
    // The published map lists wildcards in comments.
    if (address === "" || wildcard) continue;
    for (const hostname of names.length === 0 ? [""] : names) {
      const refused = refusalOf(address, hostname);
      if (refused === undefined) accepted.push(`${address} ${hostname}`);
      else leftOut.push(`${name}:${index + 1}: left out (${refused.code}): ${refused.text}`);
    }
  }
  const entries = parseHosts(accepted.join("\n"));
  if (entries.size === 0) {
    const example = "accepted are lines such as `198.51.100.9 shop.example.com`";
    const [cause] = [...leftOut.map((first) => `${first}; no name is left`), `${name}: it has no names`];
    throw new SwitchbackError("input-invalid", `${cause}; ${example}`);
  }
  return { map: publishedMapOf(shortHash(text), entries), leftOut };
}

function refusalOf(address: string, hostname: string): Reason | undefined {
  if (!isAddress(address)) return { code: "address-invalid", text: `${show(address)} is not an IP address` };
  if (hostname === "") return { code: "name-invalid", text: `no hostname follows ${address}` };
  const from = { kind: "", namespace: "", name: "" };
  const { refused, name } = POLICY({ hostname, target: "", from, created: "" });
  return refused ?? (isWildcard(name) ? { code: "wildcard", text: "a hosts file cannot hold a wildcard" } : undefined);
}
