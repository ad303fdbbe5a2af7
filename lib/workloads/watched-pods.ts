import { shortHash } from "#hostmap/hash.ts";
import { INJECT_KEY, INJECTED_KEY } from "#hostmap/metadata-keys.ts";
import type { Informer } from "#lib/kube/watch.ts";
import { notRestartable } from "./owners.ts";
import { type PodFacts, type PodsDeps, watchPods } from "./pods.ts";

/** Three selections without a common pod, so that the API server sends each pod once. */
const INJECTED = INJECTED_KEY;
const OWN_LABEL = `${INJECT_KEY},!${INJECTED_KEY}`;
const NO_LABEL = `!${INJECT_KEY},!${INJECTED_KEY}`;

/**
 * Maximum number of characters that are kept of a pod's selection. The owner of a pod writes it: 16 KiB for each of
 * 30,000 pods are 480 MB.
 */
const MAX_SELECTION = 1_024;
const UNFOLLOWED = notRestartable(`switchback.dev/hosts of its pods has more than ${MAX_SELECTION} characters`);
/** Maximum number of texts that pods share. */
const MAX_SHARED = 16_384;

interface WatchedPodsDeps extends Omit<PodsDeps, "namespace" | "labelSelector" | "keep"> {
  /** Namespaces whose pods are all watched. */
  readonly listed: readonly string[];
}

/**
 * The pods that may have opted in: those with a label of Switchback, and all pods of the listed namespaces. The rest of
 * a listed namespace are pods that were created while the webhook was away, or whose label somebody removed. A label
 * decides nothing: it only makes the search cheap.
 */
export class WatchedPods {
  readonly #byLabel: readonly Informer<PodFacts>[];
  readonly #byNamespace: readonly Informer<PodFacts>[];
  readonly #shared = new Map<string, string>();

  constructor({ listed, ...deps }: WatchedPodsDeps) {
    const keep = (facts: PodFacts) => this.#kept(facts);
    this.#byLabel = [INJECTED, OWN_LABEL].map((labelSelector) => watchPods({ ...deps, labelSelector, keep }));
    this.#byNamespace = listed.map((namespace) => watchPods({ ...deps, labelSelector: NO_LABEL, namespace, keep }));
  }

  /** The watches, whose pods are all known once each has listed. */
  get informers(): readonly Informer<PodFacts>[] {
    return [...this.#byLabel, ...this.#byNamespace];
  }

  /** All pods. While a label changes, two watches may hold the same pod: the first one counts. */
  *all(): Iterable<PodFacts> {
    const [injected, own] = this.#byLabel.map((informer) => informer.objects());
    for (const informer of this.informers) {
      const objects = informer.objects();
      for (const [key, pod] of objects) {
        if (objects === injected || (!injected?.has(key) && (objects === own || !own?.has(key)))) yield pod;
      }
    }
  }

  /** Bounds what the owner of a pod decides about, and keeps equal texts once. */
  #kept(facts: PodFacts): PodFacts {
    const { hosts, owner } = facts;
    const isLong = hosts !== undefined && hosts.length > MAX_SELECTION;
    const once = <T extends string | undefined>(text: T): T => this.#once(text);
    return {
      ...facts,
      namespace: once(facts.namespace),
      node: once(facts.node),
      owner: owner && { apiVersion: once(owner.apiVersion), kind: once(owner.kind), name: once(owner.name) },
      templateHash: once(facts.templateHash),
      inject: once(facts.inject),
      hosts: isLong ? shortHash(hosts) : once(hosts),
      revision: once(facts.revision),
      onChange: once(facts.onChange),
      restartedAt: once(facts.restartedAt),
      unfollowed: isLong ? UNFOLLOWED : undefined,
    };
  }

  #once<T extends string | undefined>(text: T): T {
    if (text === undefined) return text;
    const known = this.#shared.get(text);
    if (known !== undefined) return known as T;
    if (this.#shared.size >= MAX_SHARED) this.#shared.clear();
    this.#shared.set(text, text);
    return text;
  }
}
