import type { KubeClient } from "#lib/kube/client.ts";
import { FIELD_MANAGER, NO_VERSION } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type PublishedTarget, type PublishedTargets, parseTargets, renderTargets } from "./targets-format.ts";
import { TARGETS_KEY, TARGETS_NAME } from "./targets-name.ts";

interface RawConfigMap {
  readonly metadata: ObjectMeta;
  readonly data?: Readonly<Record<string, string>>;
}

/** The last seen version of the ConfigMap. */
interface Seen {
  readonly uid: string | undefined;
  readonly resourceVersion: string | undefined;
  readonly text: string;
}

interface TargetsWriterDeps {
  readonly client: KubeClient;
  /** Our own namespace. */
  readonly namespace: string;
  readonly log: Logger;
}

/** Publishes the targets. They tell the proxies where to listen, and the next leader what this one decided. */
export class TargetsWriter {
  readonly #deps: TargetsWriterDeps;
  #watcher: Informer<Seen> | undefined;
  /** The last document that parsed. */
  #good: PublishedTargets = { revision: "", targets: [] };

  constructor(deps: TargetsWriterDeps) {
    this.#deps = deps;
  }

  start(onChange: () => void): void {
    const { client, namespace, log } = this.#deps;
    this.#watcher = watchObjects<Seen, RawConfigMap>({
      client,
      path: corePath("configmaps", namespace),
      fieldSelector: `metadata.name=${TARGETS_NAME}`,
      project: viewTargets,
      onChange: ({ before, after }) => {
        if (after !== undefined) this.#take(after, before);
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

  /** The last publication of this or an earlier leader. A document that somebody has broken since is ignored. */
  get published(): PublishedTargets {
    return this.#good;
  }

  /**
   * Writes the targets and the number of ready proxies, unless they are already published. Returns whether it wrote.
   * Throws the API server's errors: with status 409 if the document is not the version that was seen last. Before
   * `start`, nothing is written.
   */
  async write(targets: readonly PublishedTarget[], proxies?: number): Promise<boolean> {
    const { client, namespace } = this.#deps;
    const { text } = renderTargets(targets, proxies);
    const key = `${namespace}/${TARGETS_NAME}`;
    const seen = this.#watcher?.objects().get(key);
    if (text === seen?.text) return false;
    const { uid, resourceVersion = NO_VERSION } = seen ?? {};
    const metadata = { name: TARGETS_NAME, namespace, resourceVersion, ...(uid && { uid }) };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { [TARGETS_KEY]: text } };
    const path = corePath("configmaps", namespace, TARGETS_NAME);
    const options = { fieldManager: FIELD_MANAGER, force: true };
    await this.#watcher?.request(key, () => client.apply<RawConfigMap>(path, object, options));
    return true;
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  #take(seen: Seen, before: Seen | undefined): void {
    if (seen.text === before?.text) return;
    const parsed = parseTargets(seen.text, this.#good);
    if (!("code" in parsed)) this.#good = parsed;
    for (const { code, text: problem } of "code" in parsed ? [parsed] : (parsed.refused ?? [])) {
      this.#deps.log.warn({ code }, problem);
    }
  }
}

function viewTargets({ metadata, data }: RawConfigMap): Seen {
  const { uid, resourceVersion } = metadata;
  return { uid, resourceVersion, text: data?.[TARGETS_KEY] ?? "" };
}
