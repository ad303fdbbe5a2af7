import { planInjection } from "../../hostmap/inject.ts";
import type { SelectedHosts } from "../../hostmap/select-hosts.ts";
import type { HostAlias } from "../../hostmap/types.ts";
import { hostAliasesOf, type RawPod } from "../../workloads/pods.ts";
import type { HostsDiff } from "./workload-facts.ts";

/**
 * What a new pod would have that this one has not, and the other way round, in lines of the hosts file. A revision that differs, or
 * is not there, says only that something may be different: an annotation that was forged or stripped changes no line.
 */
export function hostsDiffOf(pod: RawPod, chosen: SelectedHosts): HostsDiff {
  const [hostAliases, annotations] = [hostAliasesOf(pod), pod.metadata?.annotations ?? {}];
  const { userAliases, managed } = planInjection({ hostAliases, annotations }, chosen);
  const [has, should] = [linesOf(hostAliases), linesOf([...userAliases, ...managed.aliases])];
  return { missing: should.difference(has).size, extra: has.difference(should).size };
}

function linesOf(aliases: readonly HostAlias[]): Set<string> {
  return new Set(aliases.flatMap(({ ip, hostnames }) => hostnames.map((name) => `${ip} ${name.toLowerCase()}`)));
}
