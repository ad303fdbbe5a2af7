import { type Balancer, findBalancers } from "../balancers.ts";
import { type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import type { ProbeLookup, ProbeResult } from "../probe/result.ts";

const { ok, warning } = findingsOf("names");

/** Names that a finding lists. */
const MAX_NAMED = 5;

/** Whether public names lead, by the cluster's DNS, to the load balancer that they are claimed for. */
export function checkNames(facts: ClusterFacts): Finding[] {
  const { probe } = facts;
  // That there was no probe, or that it failed, is said where headers are judged.
  if (!probe?.known) return [];
  return findBalancers(facts).flatMap((balancer) => judge(balancer, probe.value));
}

function judge(balancer: Balancer, result: ProbeResult): Finding[] {
  const subject = `names at Service ${objectKey(balancer.service)}`;
  const lookups = new Map(result.lookups.map((lookup) => [lookup.name, lookup]));
  const asked = balancer.names.flatMap((name) => lookups.get(name) ?? []);
  // Without an address of its own (that is said where short circuits are judged) nothing can lead to it.
  if (asked.length === 0 || balancer.addresses.length === 0) return [];
  const own = new Set(balancer.addresses.flatMap((address) => [address, ...(lookups.get(address)?.addresses ?? [])]));
  const unresolved = asked.filter(({ failure }) => failure !== undefined);
  const elsewhere = asked.filter(
    ({ failure, addresses }) => failure === undefined && !addresses.some((ip) => own.has(ip)),
  );
  const good = asked.length - unresolved.length - elsewhere.length;
  const rest = balancer.names.length - asked.length;
  const findings: Finding[] = [];
  if (unresolved.length > 0) {
    const evidence = `the cluster's DNS has no address: ${list(unresolved, ({ failure }) => failure ?? "")}`;
    findings.push(
      warning(subject, "name-unresolved", evidence, "make the DNS records; pods that did not opt in depend on them"),
    );
  }
  if (elsewhere.length > 0) {
    const evidence = `not at ${balancer.addresses.join(", ")}: ${list(elsewhere, ({ addresses }) => addresses.join(" "))}`;
    const cure =
      'mend the DNS records; where they are meant to lead elsewhere (a CDN), the Ingress\'s annotation `switchback.dev/ignore: "true"` keeps them out of pods';
    findings.push(warning(subject, "name-elsewhere", evidence, cure));
  }
  if (good > 0) {
    const left = rest > 0 ? ` (${rest} more were not asked)` : "";
    findings.push(ok(subject, "names-lead-to-it", `${good} name(s) resolve to it${left}`));
  }
  return findings;
}

function list(lookups: readonly ProbeLookup[], what: (lookup: ProbeLookup) => string): string {
  const named = lookups.slice(0, MAX_NAMED).map((lookup) => `${lookup.name} (${what(lookup)})`);
  const rest = lookups.length - named.length;
  return `${named.join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`;
}
