import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import { type Informer, watchObjects } from "../kube/watch.ts";
import type { Logger } from "../telemetry/log.ts";
import {
  type PublishedTarget,
  type PublishedTargets,
  parseTargets,
  renderTargets,
  TARGETS_KEY,
  TARGETS_NAME,
} from "./targets-format.ts";

interface RawConfigMap {
  readonly data?: Readonly<Record<string, string>>;
}

interface TargetsWriterDeps {
  readonly client: KubeClient;
  /** Our own namespace. */
  readonly namespace: string;
  readonly log: Logger;
}

const FIELD_MANAGER = "switchback-controller";

/** Publishes the targets: to the proxies what they listen on, to the next leader what this one decided. */
export class TargetsWriter {
  readonly #deps: TargetsWriterDeps;
  readonly #path: string;
  #watcher: Informer<string> | undefined;
  #text: string | undefined;
  /** The last document that parsed. */
  #good: PublishedTargets = { revision: "", targets: [] };

  constructor(deps: TargetsWriterDeps) {
    this.#deps = deps;
    this.#path = corePath("configmaps", deps.namespace, TARGETS_NAME);
  }

  start(onChange: () => void): void {
    const { client, namespace, log } = this.#deps;
    this.#watcher = watchObjects<string, RawConfigMap>({
      client,
      path: corePath("configmaps", namespace),
      fieldSelector: `metadata.name=${TARGETS_NAME}`,
      project: (raw) => raw.data?.[TARGETS_KEY] ?? "",
      onChange: ({ after }) => {
        this.#take(after);
        onChange();
      },
      onSynced: onChange,
      log,
    });
  }

  get synced(): boolean {
    return this.#watcher?.state.synced ?? false;
  }

  get inactiveMs(): number {
    return this.#watcher?.state.inactiveMs ?? 0;
  }

  /** What this or an earlier leader published last. A document that somebody has broken since is ignored. */
  get published(): PublishedTargets {
    return this.#good;
  }

  /** Writes the targets unless they are published already. Returns whether it wrote. */
  async write(targets: readonly PublishedTarget[]): Promise<boolean> {
    const { client, namespace } = this.#deps;
    const { text } = renderTargets(targets);
    if (text === this.#text) return false;
    const metadata = { name: TARGETS_NAME, namespace };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { [TARGETS_KEY]: text } };
    await client.apply(this.#path, object, { fieldManager: FIELD_MANAGER, force: true });
    this.#take(text);
    return true;
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  #take(text: string | undefined): void {
    this.#text = text;
    if (text === undefined) return;
    const parsed = parseTargets(text);
    if (!("code" in parsed)) this.#good = parsed;
    else this.#deps.log.warn({ code: parsed.code }, parsed.text);
  }
}
