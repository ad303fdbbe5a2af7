import { planInjection } from "#hostmap/inject.ts";
import type { SelectedHosts } from "#hostmap/select-hosts.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { hostAliasesOf, type RawPod } from "#lib/workloads/pods.ts";
import type { HostsDiff } from "./workload-facts.ts";

/**
 * Compares the pod's hosts lines with those of a new pod: how many are missing, and how many are extra. A different
 * or missing revision shows only that lines may differ: an annotation that was forged or stripped changes no line.
 */
export function hostsDiffOf(pod: RawPod, selected: SelectedHosts): HostsDiff {
  const [hostAliases, annotations] = [hostAliasesOf(pod), pod.metadata?.annotations ?? {}];
  const { userAliases, managed } = planInjection({ hostAliases, annotations }, selected);
  const [has, should] = [linesOf(hostAliases), linesOf([...userAliases, ...managed.aliases])];
  return { missing: should.difference(has).size, extra: has.difference(should).size };
}

function linesOf(aliases: readonly HostAlias[]): Set<string> {
  return new Set(aliases.flatMap(({ ip, hostnames }) => hostnames.map((name) => `${ip} ${name.toLowerCase()}`)));
}
