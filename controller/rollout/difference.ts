import { planInjection } from "#hostmap/inject.ts";
import type { SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias, PublishedMap } from "#hostmap/types.ts";
import { hostAliasesOf, type PodFacts, type RawPod } from "#lib/workloads/pods.ts";

/** What a restart would change for the pods of a workload. */
export interface Difference {
  /** Lines that a new pod would get and a stale pod lacks, and lines that it has in addition. */
  readonly missing: number;
  readonly extra: number;
  /** The namespaces that hold the missing names, or the extra ones if no name is missing. Sorted. */
  readonly causes: readonly string[];
  /** Whether several namespaces hold the names that the pods select. */
  readonly shared: boolean;
}

/** Maximum number of stale pods that are compared per workload. */
const MAX_SAMPLES = 5;

/** One stale pod per revision and selection. */
export function samplesOf(stale: readonly PodFacts[]): PodFacts[] {
  const different = new Map(stale.map((pod) => [`${pod.revision} ${pod.hosts}`, pod]));
  return [...different.values()].slice(0, MAX_SAMPLES);
}

/**
 * Compares the hosts lines of a pod with those of a new one. A different or missing revision only shows that they may
 * differ: forging or removing the annotation changes no line. A name that is leaving the map still has its holder.
 */
export function differenceOf(pod: RawPod, selected: SelectedHosts, { lines }: PublishedMap): Difference {
  const [hostAliases, annotations] = [hostAliasesOf(pod), pod.metadata?.annotations ?? {}];
  const { userAliases, managed } = planInjection({ hostAliases, annotations }, selected);
  const [has, should] = [linesOf(hostAliases), linesOf([...userAliases, ...managed.aliases])];
  const [missing, extra] = [[...should.difference(has)], [...has.difference(should)]];
  const holders = (names: readonly string[]) => new Set(names.map((name) => lines.get(name)?.holder ?? ""));
  const changed = (missing.length > 0 ? missing : extra).map((line) => line.slice(line.indexOf(" ") + 1));
  return {
    missing: missing.length,
    extra: extra.length,
    causes: [...holders(changed)].sort(),
    shared: holders(selected.names).size > 1,
  };
}

/** The difference of several pods of one workload. */
export function sumOf(all: readonly Difference[]): Difference {
  return {
    missing: all.reduce((sum, { missing }) => sum + missing, 0),
    extra: all.reduce((sum, { extra }) => sum + extra, 0),
    causes: [...new Set(all.flatMap(({ causes }) => causes))].sort(),
    shared: all.some(({ shared }) => shared),
  };
}

function linesOf(aliases: readonly HostAlias[]): Set<string> {
  return new Set(aliases.flatMap(({ ip, hostnames }) => hostnames.map((name) => `${ip} ${name.toLowerCase()}`)));
}
