import { planInjection } from "#hostmap/inject.ts";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias, PublishedMap } from "#hostmap/types.ts";
import { hostAliasesOf, type PodFacts, type RawPod } from "#lib/workloads/pods.ts";
import type { HostsChoice } from "./observe-workloads.ts";
import type { HostsDiff } from "./workload-facts.ts";

/** Stale pods of a workload that are read at most: one of each revision and selection. */
const MAX_SAMPLES = 5;

/** What new pods get of the published map. */
export class MapSelections {
  readonly #maxNames: number;
  #map: PublishedMap | undefined;
  #select: (hosts: string | undefined) => SelectedHosts = () => {
    throw new Error("no map yet");
  };
  #choices = new Map<string | undefined, HostsChoice>();

  /** `maxNames`: the most names that the webhook adds to a pod. */
  constructor(maxNames: number) {
    this.#maxNames = maxNames;
  }

  /** Undefined: there is no map yet. */
  get mapRevision(): string | undefined {
    return this.#map?.revision;
  }

  /** Returns whether it is another map than the one before. */
  setMap(map: PublishedMap): boolean {
    if (map.revision === this.#map?.revision) return false;
    this.#map = map;
    this.#select = createSelector(map, this.#maxNames);
    this.#choices = new Map();
    return true;
  }

  /** Selects by the value of a `switchback.dev/hosts` annotation. Each is selected once for a map. */
  choose(hosts: string | undefined): HostsChoice {
    const known = this.#choices.get(hosts);
    if (known !== undefined) return known;
    const { revision, total, cap } = this.#select(hosts);
    const choice = { revision, total, cap };
    this.#choices.set(hosts, choice);
    return choice;
  }

  /** Compares one pod of each revision and selection with a new pod; undefined: there is none. `read` reads a pod. */
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
