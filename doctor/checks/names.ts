import { isIP } from "node:net";
import { MAP_KEY } from "#hostmap/metadata-keys.ts";
import { listSome } from "#lib/errors/printable.ts";
import { type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { findLoadBalancers, type LoadBalancer } from "../load-balancers.ts";
import type { ProbeLookup, ProbeOutcome } from "../probe/result.ts";

const { ok, warning } = findingsOf("names");

/** Maximum number of names in a finding. */
const MAX_LISTED = 5;

/** Outcomes that show that something answers, whatever the answer is. */
const ANSWERS: readonly ProbeOutcome["kind"][] = ["answered", "misread"];

/** Whether public names resolve, in the cluster's DNS, to the load balancer that serves them. */
export function checkNames(facts: ClusterFacts): Finding[] {
  const { probe, lookups } = facts;
  if (probe?.known) {
    return findLoadBalancers(facts).flatMap((loadBalancer) => checkNamesOf(loadBalancer, probe.value.lookups));
  }
  if (lookups === undefined) return [];
  const known = [...lookups].map(([name, addresses]) => ({
    name,
    addresses: [...addresses],
    ...(addresses.length === 0 && { failure: "no address" }),
  }));
  const isKnown = (address: string) => isIP(address) !== 0 || lookups.has(address);
  return findLoadBalancers(facts)
    .filter(({ addresses }) => addresses.every(isKnown))
    .flatMap((loadBalancer) => checkNamesOf(loadBalancer, known));
}

function checkNamesOf(loadBalancer: LoadBalancer, all: readonly ProbeLookup[]): Finding[] {
  const subject = `names at Service ${objectKey(loadBalancer.service)}`;
  const lookups = new Map(all.map((lookup) => [lookup.name, lookup]));
  const resolved = loadBalancer.names.flatMap((name) => lookups.get(name) ?? []);
  // The short-circuit check reports a load balancer without an address.
  if (resolved.length === 0 || loadBalancer.addresses.length === 0) return [];
  const own = new Set(
    loadBalancer.addresses.flatMap((address) => [address, ...(lookups.get(address)?.addresses ?? [])]),
  );
  const unresolved = resolved.flatMap(({ name, failure }) => (failure === undefined ? [] : [`${name} (${failure})`]));
  const away = resolved.filter(
    ({ failure, addresses }) => failure === undefined && !addresses.some((ip) => own.has(ip)),
  );
  const unreachable = away.filter(({ outcome }) => outcome !== undefined && !ANSWERS.includes(outcome.kind));
  const elsewhere = away.filter((lookup) => !unreachable.includes(lookup)).map(shown);
  const good = resolved.length - unresolved.length - away.length;
  const rest = loadBalancer.names.length - resolved.length;
  const findings: Finding[] = [];
  if (unresolved.length > 0) {
    const evidence = `the cluster's DNS has no address: ${list(unresolved)}`;
    findings.push(
      warning(subject, "name-unresolved", evidence, "create the DNS records; pods that did not opt in depend on them"),
    );
  }
  if (unreachable.length > 0 && loadBalancer.service.annotations[MAP_KEY] !== "always") {
    const { namespace, name } = loadBalancer.service;
    const evidence =
      `not resolving to ${loadBalancer.addresses.join(", ")}, and pods get no answer at their addresses: ` +
      list(unreachable.map(shown));
    const cure =
      "if that address is your router's, and it does not forward connections from inside, run " +
      `\`kubectl -n ${namespace} annotate service ${name} ${MAP_KEY}=always\``;
    findings.push(warning(subject, "name-unreachable", evidence, cure));
  }
  if (elsewhere.length > 0) {
    const evidence = `not resolving to ${loadBalancer.addresses.join(", ")}: ${list(elsewhere)}`;
    const cure =
      "correct the DNS records; if they should resolve elsewhere (a CDN), " +
      'exclude the Ingress with the annotation `switchback.dev/ignore: "true"`';
    findings.push(warning(subject, "name-elsewhere", evidence, cure));
  }
  if (good > 0) {
    const left = rest > 0 ? ` (${rest} more were not probed)` : "";
    findings.push(ok(subject, "names-lead-to-it", `${good} name(s) resolve to it${left}`));
  }
  return findings;
}

function shown({ name, addresses }: ProbeLookup): string {
  return `${name} (${addresses.join(" ")})`;
}

function list(lookups: readonly string[]): string {
  return listSome(lookups, MAX_LISTED, String);
}
