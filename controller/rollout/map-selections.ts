import { planInjection } from "#hostmap/inject.ts";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias, PublishedMap } from "#hostmap/types.ts";
import { hostAliasesOf, type PodFacts, type RawPod } from "#lib/workloads/pods.ts";
import type { HostsChoice } from "./observe-workloads.ts";
import type { HostsDiff } from "./workload-facts.ts";

/** Maximum number of stale pods that are read per workload: one per revision and selection. */
const MAX_SAMPLES = 5;

/** The names of the published map that new pods would get. */
export class MapSelections {
  readonly #maxNames: number;
  #map: PublishedMap | undefined;
  #select: (hosts: string | undefined) => SelectedHosts = () => {
    throw new Error("no map yet");
  };
  #choices = new Map<string | undefined, HostsChoice>();

  /** `maxNames`: the maximum number of names that the webhook adds to a pod. */
  constructor(maxNames: number) {
    this.#maxNames = maxNames;
  }

  /** Undefined: no map is known yet. */
  get mapRevision(): string | undefined {
    return this.#map?.revision;
  }

  /** Returns whether the map has changed. */
  setMap(map: PublishedMap): boolean {
    if (map.revision === this.#map?.revision) return false;
    this.#map = map;
    this.#select = createSelector(map, this.#maxNames);
    this.#choices = new Map();
    return true;
  }

  /** Selects names by the value of a `switchback.dev/hosts` annotation. Each value is computed once per map. */
  choose(hosts: string | undefined): HostsChoice {
    const known = this.#choices.get(hosts);
    if (known !== undefined) return known;
    const { revision, total, cap } = this.#select(hosts);
    const choice = { revision, total, cap };
    this.#choices.set(hosts, choice);
    return choice;
  }

  /** Compares one pod per revision and selection with a new pod; undefined: no pod was compared. `read` reads a pod. */
  async diff(pods: readonly PodFacts[], read: (pod: PodFacts) => Promise<RawPod>): Promise<HostsDiff | undefined> {
    const different = new Map(pods.map((pod) => [`${pod.revision} ${pod.hosts}`, pod]));
    const samples = [...different.values()].slice(0, MAX_SAMPLES);
    const diffs = await Promise.all(samples.map(async (pod) => hostsDiffOf(await read(pod), this.#select(pod.hosts))));
    if (diffs.length === 0) return undefined;
    return {
      missing: Math.max(...diffs.map(({ missing }) => missing)),
      extra: Math.max(...diffs.map(({ extra }) => extra)),
    };
  }
}

/**
 * Compares the pod's hosts lines with those of a new pod: how many are missing, and how many are extra. A different
 * or missing revision only shows that lines may differ. Forging or removing the annotation changes no line.
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
