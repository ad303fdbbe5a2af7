import { canonicalIp } from "#controller/targets/service-view.ts";
import { MAP_KEY } from "#hostmap/metadata-keys.ts";
import { listSome } from "#lib/errors/printable.ts";
import { type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { findLoadBalancers, type LoadBalancer } from "../load-balancers.ts";
import type { ProbeLookup, ProbeOutcome } from "../probe/result.ts";
import { annotateCommand } from "../providers.ts";
import { isMappedAlways } from "../ways-out.ts";

const { ok, warning } = findingsOf("names");

/** Maximum number of names in a finding. */
const MAX_LISTED = 5;

/** Outcomes that show that something answers, whatever the answer is. */
const ANSWERS: readonly ProbeOutcome["kind"][] = ["answered", "misread"];

type Lookups = ReadonlyMap<string, ProbeLookup>;

/** Whether public names resolve, in the cluster's DNS, to the load balancer that serves them. */
export function checkNames(facts: ClusterFacts): Finding[] {
  const { probe } = facts;
  if (!probe?.known) return [];
  const lookups = new Map(probe.value.lookups.map((lookup) => [lookup.name, lookup]));
  const inside = addressesOfServices(facts, lookups);
  return findLoadBalancers(facts).flatMap((loadBalancer) => {
    const isAlways = isMappedAlways(loadBalancer.service, facts);
    return checkNamesOf(loadBalancer, { lookups, inside, isAlways });
  });
}

/** The ClusterIPs and `externalIPs` of all Services, and the addresses of their load balancers. */
function addressesOfServices({ services }: ClusterFacts, lookups: Lookups): ReadonlySet<string> {
  const all = services.known ? services.value : [];
  const entries = all.flatMap((service) => service.entries);
  return new Set([
    ...[...all.flatMap(({ clusterIPs }) => clusterIPs), ...entries.flatMap(({ ip }) => ip ?? [])].map(canonicalIp),
    ...entries.flatMap(({ hostname = "" }) => lookups.get(hostname)?.addresses ?? []),
  ]);
}

interface NamesContext {
  readonly lookups: Lookups;
  /** The addresses of all Services of the cluster. */
  readonly inside: ReadonlySet<string>;
  /** Whether its names are mapped wherever DNS leads them. */
  readonly isAlways: boolean;
}

function checkNamesOf(loadBalancer: LoadBalancer, { lookups, inside, isAlways }: NamesContext): Finding[] {
  const { service, names, addresses: all } = loadBalancer;
  const subject = `names at Service ${objectKey(service)}`;
  const resolved = names.flatMap((name) => lookups.get(name) ?? []);
  // Another check reports a load balancer without an address.
  if (resolved.length === 0 || all.length === 0) return [];
  const own = new Set(all.flatMap((address) => [address, ...(lookups.get(address)?.addresses ?? [])]));
  const whereOf = ({ failure, addresses, outcome }: ProbeLookup) => {
    if (failure !== undefined) return "nowhere";
    if (addresses.some((address) => own.has(address))) return "here";
    // A record that leads to another Service of this cluster is right: DNS decides which of the two gets the name.
    if (addresses.some((address) => inside.has(address))) return "inside";
    return outcome === undefined || ANSWERS.includes(outcome.kind) ? "elsewhere" : "unreachable";
  };
  const { nowhere = [], here = [], unreachable = [], elsewhere = [] } = Object.groupBy(resolved, whereOf);
  const findings: Finding[] = [];
  if (nowhere.length > 0) {
    const unresolved = list(nowhere, ({ name, failure }) => `${name} (${failure})`);
    const evidence = `the cluster's DNS has no address: ${unresolved}`;
    findings.push(
      warning(subject, "name-unresolved", evidence, "create the DNS records; pods that did not opt in depend on them"),
    );
  }
  const not = `not resolving to ${all.join(", ")}`;
  if (unreachable.length > 0 && !isAlways) {
    const evidence = `${not}, and pods get no answer at their addresses: ${list(unreachable, shown)}`;
    const cure =
      "if that address is your router's, and it does not forward connections from inside, run " +
      `\`${annotateCommand(service, `${MAP_KEY}=always`)}\``;
    findings.push(warning(subject, "name-unreachable", evidence, cure));
  }
  if (elsewhere.length > 0 && !isAlways) {
    const cure =
      "correct the DNS records; if they should resolve elsewhere (a CDN), " +
      'exclude the Ingress with the annotation `switchback.dev/ignore: "true"`';
    findings.push(warning(subject, "name-elsewhere", `${not}: ${list(elsewhere, shown)}`, cure));
  }
  if (here.length > 0) {
    const rest = names.length - resolved.length;
    const left = rest > 0 ? ` (${rest} more were not probed)` : "";
    findings.push(ok(subject, "names-lead-to-it", `${here.length} name(s) resolve to it${left}`));
  }
  return findings;
}

function shown({ name, addresses }: ProbeLookup): string {
  return `${name} (${addresses.join(" ")})`;
}

function list(lookups: readonly ProbeLookup[], textOf: (lookup: ProbeLookup) => string): string {
  return listSome(lookups, MAX_LISTED, textOf);
}
