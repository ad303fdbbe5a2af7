import { isNamespaceOptedIn, type OptInRules } from "#hostmap/opt-in.ts";
import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { ObjectChange } from "#lib/kube/cache.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { yieldToLoop } from "#lib/kube/time.ts";
import type { Informer } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type NamespaceFacts, watchNamespaces } from "./namespaces.ts";
import { PodWatches } from "./pod-watches.ts";
import type { PodFacts } from "./pods.ts";

interface ObserverDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  /** Whether something follows the pods all the time. If not, the pods are observed only after `request` was called. */
  readonly always: boolean;
  /** Whether the pods' nodes matter. Only agents need them. */
  readonly withNodes: boolean;
  readonly optIn: OptInRules;
}

/** The events of the observer about pods and Namespaces. */
interface ObserverEvents {
  /**
   * Called for each change of a pod's or Namespace's facts, also during the first list; `before` and `after` differ.
   */
  readonly onPod: (change: ObjectChange<PodFacts>) => void;
  readonly onNamespace: (change: ObjectChange<NamespaceFacts>) => void;
  /** Called when the value of `unknown` has changed. */
  readonly onSynced: () => void;
}

/** A requested observation ends this long after the last request. */
export const IDLE_MS = 5 * 60_000;
/** Number of objects that are reported as gone in one step when the observation ends. */
const REPORTED_AT_ONCE = 500;

interface Observation {
  readonly namespaces: Informer<NamespaceFacts>;
  readonly watches: PodWatches;
}

/**
 * Observes the pods that may have opted in, and all Namespaces, while something follows them or somebody requests
 * them.
 */
export class PodObserver {
  readonly #deps: ObserverDeps;
  #events: ObserverEvents = { onPod: () => {}, onNamespace: () => {}, onSynced: () => {} };
  #current: Observation | undefined;
  /** Resolves when all objects of an ended observation have been reported as gone. */
  #closing: Promise<void> | undefined;
  #idle: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(deps: ObserverDeps) {
    this.#deps = deps;
  }

  start(events: ObserverEvents): void {
    this.#events = events;
    if (this.#deps.always) this.#open();
  }

  /** The pods by `namespace/name`. The map is updated in place. */
  pods(): ReadonlyMap<string, PodFacts> {
    return this.#current?.watches.objects() ?? new Map();
  }

  /** The Namespaces by name. The map is updated in place. */
  namespaces(): ReadonlyMap<string, NamespaceFacts> {
    return this.#current?.namespaces.objects() ?? new Map();
  }

  /** Somebody requests the state of the pods. Observes them from now on, for `IDLE_MS`. */
  request(): void {
    if (this.#deps.always || this.#stopped) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => void this.#close(), IDLE_MS);
    if (this.#closing === undefined) this.#open();
  }

  /** The reason why the pods are not known. Undefined if they are known. */
  get unknown(): Reason | undefined {
    if (this.#current === undefined && this.#idle === undefined) return NOT_OBSERVED;
    const { state } = this.#current?.namespaces ?? { state: undefined };
    if (state?.synced === true) return this.#current?.watches.unknown;
    const detail = state?.problem === undefined ? "" : `: ${state.problem.text}`;
    return { code: "namespaces-not-listed", text: `the namespaces of the cluster are not known yet${detail}` };
  }

  /** A notice for users about how the pods are observed, if any. */
  get notice(): Reason | undefined {
    return this.#current?.watches.notice;
  }

  /** Number of pods that are left out because there is no room for them. */
  get shedPods(): number {
    return this.#current?.watches.shedPods ?? 0;
  }

  /** The longest time since a watch received or tried anything, in milliseconds. */
  get inactiveMs(): number {
    if (this.#current === undefined) return 0;
    const { namespaces, watches } = this.#current;
    return Math.max(namespaces.state.inactiveMs, watches.inactiveMs);
  }

  /** Stops at once and reports nothing. Resolves when every watch has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#idle);
    await Promise.all([this.#current?.namespaces.stop(), this.#current?.watches.stop(), this.#closing]);
  }

  #open(): void {
    if (this.#current !== undefined) return;
    const { client, log, withNodes } = this.#deps;
    const { onPod, onNamespace, onSynced } = this.#events;
    const watches = new PodWatches({ client, log, withNodes, onChange: guarded(onPod, log), onSynced });
    const namespaces = watchNamespaces({
      client,
      log,
      onChange: (change) => {
        onNamespace(change);
        if (namespaces.state.synced) this.#follow(watches, change);
      },
      onSynced: () => {
        const objects = namespaces.objects();
        // Includes listed namespaces that do not exist: the later creation of a namespace without a label is not
        // reported.
        const names = [...this.#deps.optIn.listed, ...objects.keys()];
        watches.begin(names.filter((name) => this.#isOptedIn(name, objects.get(name))));
        onSynced();
      },
    });
    this.#current = { namespaces, watches };
  }

  #follow(watches: PodWatches, { key, after }: ObjectChange<NamespaceFacts>): void {
    if (this.#isOptedIn(key, after)) watches.follow(key);
    else watches.unfollow(key);
  }

  #isOptedIn(name: string, facts: NamespaceFacts | undefined): boolean {
    return isNamespaceOptedIn(name, facts?.inject, this.#deps.optIn);
  }

  /** Ends the observation. Reports every object as gone, so that no receiver keeps it. */
  async #close(): Promise<void> {
    const current = this.#current;
    this.#idle = undefined;
    if (current === undefined) return;
    this.#current = undefined;
    this.#closing = this.#reportGone(current);
    this.#events.onSynced();
    await this.#closing;
    this.#closing = undefined;
    if (this.#idle !== undefined && !this.#stopped) this.#open();
  }

  async #reportGone({ namespaces, watches }: Observation): Promise<void> {
    await Promise.all([namespaces.stop(), watches.stop()]);
    const { log } = this.#deps;
    const { onPod, onNamespace } = this.#events;
    const [podGone, namespaceGone] = [guarded(onPod, log), guarded(onNamespace, log)];
    await inSlices(watches.objects(), (key, before) => !this.#stopped && podGone({ key, before }));
    await inSlices(namespaces.objects(), (key, before) => !this.#stopped && namespaceGone({ key, before }));
  }
}

/** The reason why pods are not known while nothing follows them. */
export const NOT_OBSERVED: Reason = {
  code: "not-observed",
  text:
    "nothing follows the pods (restart.namespaces and optIn.namespaces are empty and there are no agents): they are " +
    "observed while somebody asks for the status",
};

/** Wraps a handler. If it fails, only that change is lost; the others are still reported. */
function guarded<T extends { readonly key: string }>(handler: (change: T) => void, log: Logger): (change: T) => void {
  return (change) => {
    try {
      handler(change);
    } catch (error) {
      log.error({ object: change.key }, `a change could not be handled: ${describeError(error)}`);
    }
  };
}

async function inSlices<T>(objects: ReadonlyMap<string, T>, report: (key: string, object: T) => void): Promise<void> {
  let count = 0;
  for (const [key, object] of objects) {
    report(key, object);
    if (++count % REPORTED_AT_ONCE === 0) await yieldToLoop();
  }
}
