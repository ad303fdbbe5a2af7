import { isDeepStrictEqual } from "node:util";
import { INJECT_KEY, INJECTED_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import type { ObjectChange } from "#lib/kube/cache.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { yieldToLoop } from "#lib/kube/time.ts";
import type { Informer } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { PodMemory } from "./pod-memory.ts";
import { type PodFacts, watchPods } from "./pods.ts";

/**
 * Maximum number of namespaces whose pods are watched one by one. A watch is a connection. It takes 100 KB of memory,
 * and 2.5 ms of CPU to open (400 and 800 of them, TLS, API server 1.36).
 */
export const MAX_NAMESPACES = 1_000;
/**
 * Number of watches that are opened at once. The next ones follow after a pause, because an API server has other
 * clients.
 */
const OPEN_AT_ONCE = 16;
const OPEN_EVERY_MS = 100;
/** Number of pods that are processed in one step when watches are replaced. */
const UPDATED_AT_ONCE = 500;

/** Three selections without a common pod, so that the API server sends each pod once. */
const INJECTED = INJECTED_KEY;
const OWN_LABEL = `${INJECT_KEY},!${INJECTED_KEY}`;
const NO_LABEL = `!${INJECT_KEY},!${INJECTED_KEY}`;

interface PodWatchesDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  /** Whether the pods' nodes matter. */
  readonly withNodes: boolean;
  /** Set only in tests. */
  readonly memory?: PodMemory;
  /** Called for each change of a pod's facts; `before` and `after` differ. */
  readonly onChange: (change: ObjectChange<PodFacts>) => void;
  /** Called when everything that was followed at first has been listed. */
  readonly onSynced: () => void;
}

type Pods = Informer<PodFacts>;

/** One watch of the whole cluster. Only the pods of these namespaces are kept. */
interface WideWatch {
  readonly pods: Pods;
  readonly namespaces: ReadonlySet<string>;
}

/**
 * The pods that may have opted in: those with the webhook's label, those with their own label
 * `switchback.dev/inject`, and the rest of each opted-in namespace. The rest are pods that were created while the
 * webhook was away, or whose label somebody removed. Labels only make the search cheap: pods that did not opt in may
 * be among the results.
 */
export class PodWatches {
  readonly #deps: PodWatchesDeps;
  readonly #pods = new Map<string, PodFacts>();
  readonly #memory: PodMemory;
  /** If a label changes, two watches may briefly hold the same pod. Then the first watch counts. */
  readonly #byLabel: readonly Pods[];
  readonly #byNamespace = new Map<string, Pods>();
  /**
   * A second watch exists while it is being listed. Then it replaces the first one and the watches of its namespaces.
   */
  #wide: readonly WideWatch[] = [];
  /** Namespaces whose watches are not open yet. */
  readonly #queue = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  /** Initially opted-in namespaces that are not listed yet. Undefined until `begin` is called. */
  #pending: Set<string> | undefined;
  #isComplete = false;
  #stopped = false;
  readonly #ending = new Set<Promise<void>>();

  constructor(deps: PodWatchesDeps) {
    this.#deps = deps;
    this.#memory = deps.memory ?? new PodMemory({ log: deps.log });
    this.#byLabel = [INJECTED, OWN_LABEL].map((labelSelector) => this.#watch({ labelSelector }));
  }

  /** The current state by `namespace/name`; the map is updated in place. */
  objects(): ReadonlyMap<string, PodFacts> {
    return this.#pods;
  }

  /** Follows the rest of these namespaces: all that are initially opted in. */
  begin(namespaces: readonly string[]): void {
    this.#pending = new Set(namespaces);
    for (const namespace of namespaces) this.#queue.add(namespace);
    this.#openMore();
    this.#checkComplete();
  }

  /** Follows the rest of one more namespace. */
  follow(namespace: string): void {
    if (this.#isFollowed(namespace)) return;
    this.#queue.add(namespace);
    this.#openMore();
  }

  /** Stops following a namespace that has opted out. Its pods in a watch of the whole cluster stay. */
  unfollow(namespace: string): void {
    this.#queue.delete(namespace);
    this.#pending?.delete(namespace);
    const pods = this.#byNamespace.get(namespace);
    this.#byNamespace.delete(namespace);
    if (pods !== undefined) this.#end([pods]);
    this.#checkComplete();
  }

  /** The reason why the pods are not known yet. Undefined if they are known. */
  get unknown(): Reason | undefined {
    if (this.#isComplete) return undefined;
    const problem = this.#all()
      .map(({ state }) => state)
      .find((state) => !state.synced && state.problem !== undefined)?.problem;
    const detail = problem === undefined ? "" : `: ${problem.text}`;
    return { code: "pods-not-listed", text: `the pods of the cluster are not known yet${detail}` };
  }

  /** Set if pods are left out, or if too many namespaces opted in to watch them one by one. */
  get notice(): Reason | undefined {
    return this.#memory.shed ?? this.#manyNamespaces;
  }

  /** Number of pods that are left out because there is no room for them. */
  get shedPods(): number {
    return this.#memory.shedPods;
  }

  get #manyNamespaces(): Reason | undefined {
    if (this.#wide.length === 0) return undefined;
    const text =
      `more than ${MAX_NAMESPACES} namespaces opted in: their pods without a label of Switchback are found by one ` +
      "watch of the whole " +
      "cluster, which costs more";
    return { code: "many-namespaces", text };
  }

  /** The longest time since a watch received or tried anything, in milliseconds. */
  get inactiveMs(): number {
    return Math.max(...this.#all().map(({ state }) => state.inactiveMs));
  }

  /** Stops at once and reports nothing. Resolves when every watch has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await Promise.all([...this.#all().map((pods) => pods.stop()), ...this.#ending]);
  }

  #openMore(): void {
    if (this.#timer !== undefined || this.#queue.size === 0 || this.#stopped) return;
    if (this.#byNamespace.size + this.#queue.size > MAX_NAMESPACES) {
      this.#openWide();
      return;
    }
    for (const namespace of [...this.#queue].slice(0, OPEN_AT_ONCE)) {
      this.#queue.delete(namespace);
      const onSynced = () => this.#listed([namespace]);
      this.#byNamespace.set(namespace, this.#watch({ namespace, labelSelector: NO_LABEL, onSynced }));
    }
    if (this.#queue.size === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#openMore();
    }, OPEN_EVERY_MS);
  }

  /**
   * Opens a watch of the whole cluster. When it is listed, it replaces the watches of all namespaces and an earlier
   * watch of the whole cluster.
   */
  #openWide(): void {
    const [earlier] = this.#wide;
    // While an earlier watch is still being listed, newly opted-in namespaces wait for it.
    if (this.#wide.length > 1 || (earlier !== undefined && !earlier.pods.state.synced)) return;
    const namespaces = new Set([...(earlier?.namespaces ?? []), ...this.#byNamespace.keys(), ...this.#queue]);
    this.#queue.clear();
    const onSynced = () => {
      const replaced = [...namespaces].flatMap((namespace) => this.#byNamespace.get(namespace) ?? []);
      for (const namespace of namespaces) this.#byNamespace.delete(namespace);
      this.#wide = this.#wide.slice(-1);
      this.#end(earlier === undefined ? replaced : [...replaced, earlier.pods]);
      this.#listed(namespaces);
      this.#openMore();
    };
    const pods = this.#watch({ labelSelector: NO_LABEL, isWanted: (namespace) => namespaces.has(namespace), onSynced });
    this.#wide = [...this.#wide, { pods, namespaces }];
    this.#deps.log.warn({ code: "many-namespaces", namespaces: namespaces.size }, this.#manyNamespaces?.text ?? "");
  }

  #watch(options: {
    readonly namespace?: string;
    readonly labelSelector: string;
    readonly isWanted?: (namespace: string) => boolean;
    readonly onSynced?: () => void;
  }): Pods {
    const { client, log, withNodes } = this.#deps;
    const onChange = ({ key }: { readonly key: string }) => this.#update(key);
    const keep = (facts: PodFacts) => this.#memory.keep(facts);
    return watchPods({ client, log, withNodes, keep, onSynced: () => this.#checkComplete(), ...options, onChange });
  }

  /** Stops these sources. Their pods are looked up in the other sources, in slices, because there may be many. */
  #end(sources: readonly Pods[]): void {
    const ending = Promise.all(sources.map((pods) => pods.stop())).then(async () => {
      let count = 0;
      for (const pods of sources) {
        for (const key of pods.objects().keys()) {
          if (this.#stopped) return;
          this.#update(key);
          if (++count % UPDATED_AT_ONCE === 0) await yieldToLoop();
        }
      }
    });
    this.#ending.add(ending);
    void ending.then(() => this.#ending.delete(ending));
  }

  #update(key: string): void {
    const before = this.#pods.get(key);
    const after = this.#find(key);
    if (after !== undefined) this.#pods.set(key, after);
    else this.#pods.delete(key);
    if (before !== undefined && before.uid !== after?.uid) this.#memory.release(before);
    if (isDeepStrictEqual(before, after)) return;
    this.#deps.onChange({ key, ...(before && { before }), ...(after && { after }) });
  }

  #find(key: string): PodFacts | undefined {
    const ofNamespace = this.#byNamespace.get(key.slice(0, key.indexOf("/")));
    for (const pods of [...this.#byLabel, ofNamespace, ...this.#wide.map(({ pods: wide }) => wide)]) {
      const found = pods?.objects().get(key);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #isFollowed(namespace: string): boolean {
    return this.#byNamespace.has(namespace) || this.#wide.some(({ namespaces }) => namespaces.has(namespace));
  }

  #listed(namespaces: Iterable<string>): void {
    for (const namespace of namespaces) this.#pending?.delete(namespace);
    this.#checkComplete();
  }

  #checkComplete(): void {
    if (this.#isComplete || this.#pending?.size !== 0) return;
    if (!this.#byLabel.every(({ state }) => state.synced)) return;
    this.#isComplete = true;
    this.#deps.onSynced();
  }

  #all(): Pods[] {
    return [...this.#byLabel, ...this.#byNamespace.values(), ...this.#wide.map(({ pods }) => pods)];
  }
}
