import { describeError, statusOf } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import type { Logger } from "../telemetry/log.ts";
import type { PodFacts, RawPod } from "./pods.ts";

/** Pods that are read concurrently, and in one round; the rest is read in the next round. */
const AT_ONCE = 8;
const PER_ROUND = 80;
/** A pod that is not bound yet, or could not be read, is read again after this. */
const AGAIN_MS = 2_000;

interface NodesDeps {
  readonly client: KubeClient;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly onChange: () => void;
}

/**
 * The nodes of pods. A node's name is not metadata, so the few pods of mode `live` are read one by one, once: a pod never moves.
 */
export class PodNodes {
  readonly #deps: NodesDeps;
  readonly #known = new Map<string, string>();
  readonly #wanted = new Map<string, PodFacts>();
  readonly #notBefore = new Map<string, number>();
  #reading = false;

  constructor(deps: NodesDeps) {
    this.#deps = deps;
  }

  /** Undefined: not known yet; it is requested. */
  of(pod: PodFacts): string | undefined {
    const node = this.#known.get(pod.uid);
    if (node === undefined && this.#deps.now() >= (this.#notBefore.get(pod.uid) ?? 0)) this.#wanted.set(pod.uid, pod);
    return node;
  }

  /** Whether a pod's node was requested and is not known. */
  get pending(): boolean {
    return [...this.#notBefore.keys()].some((uid) => !this.#known.has(uid));
  }

  /** Forgets pods that are gone, and reads those that were requested. */
  refresh(uids: ReadonlySet<string>, signal: AbortSignal): void {
    for (const memory of [this.#known, this.#wanted, this.#notBefore]) {
      for (const uid of memory.keys()) if (!uids.has(uid)) memory.delete(uid);
    }
    if (this.#reading || this.#wanted.size === 0) return;
    this.#reading = true;
    void this.#round(signal).finally(() => {
      this.#reading = false;
      if (!signal.aborted) this.#deps.onChange();
    });
  }

  async #round(signal: AbortSignal): Promise<void> {
    const batch = [...this.#wanted.values()].slice(0, PER_ROUND);
    for (let start = 0; start < batch.length && !signal.aborted; start += AT_ONCE) {
      await Promise.all(batch.slice(start, start + AT_ONCE).map((pod) => this.#read(pod, signal)));
    }
  }

  async #read(pod: PodFacts, signal: AbortSignal): Promise<void> {
    const { client, log, now } = this.#deps;
    this.#wanted.delete(pod.uid);
    this.#notBefore.set(pod.uid, now() + AGAIN_MS);
    try {
      const { spec } = await client.get<RawPod>(corePath("pods", pod.namespace, pod.name), {}, { signal });
      if (spec?.nodeName) this.#known.set(pod.uid, spec.nodeName);
    } catch (error) {
      if (statusOf(error) !== 404 && !signal.aborted) {
        log.warn({ pod: `${pod.namespace}/${pod.name}` }, `its node could not be read: ${describeError(error)}`);
      }
    }
  }
}
