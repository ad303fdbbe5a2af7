import { FIELD_MANAGER } from "#lib/kube/leader-client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { ConfigMapWriter, type WriterDeps } from "./config-map.ts";
import {
  type PublishedTarget,
  type PublishedTargets,
  parseTargets,
  renderTargets,
  TARGETS_KEY,
  TARGETS_NAME,
} from "./targets-format.ts";

/** Publishes the targets: the proxies read where to listen, and the next leader what this one decided. */
export class TargetsWriter extends ConfigMapWriter {
  readonly #log: Logger;
  #text: string | undefined;
  /** The last document that parsed. */
  #good: PublishedTargets = { revision: "", targets: [] };

  constructor(deps: WriterDeps) {
    super(TARGETS_NAME, deps);
    this.#log = deps.log;
  }

  override start(onChange: () => void): void {
    super.start(() => {
      this.#parse();
      onChange();
    });
  }

  /** The last publication of this or an earlier leader. A document that somebody has broken since is ignored. */
  get published(): PublishedTargets {
    return this.#good;
  }

  /**
   * Writes the targets and the addresses of the ready proxies, unless they are published. Returns whether it wrote.
   * Throws the API server's errors: with status 409 if the document is not the version that was seen last. Before
   * `start`, nothing is written.
   */
  async write(targets: readonly PublishedTarget[], proxies?: readonly string[]): Promise<boolean> {
    const { text } = renderTargets(targets, proxies);
    if (text === this.current?.data?.[TARGETS_KEY]) return false;
    const { name, namespace, uid, resourceVersion } = this.base;
    const metadata = { name, namespace, resourceVersion, ...(uid && { uid }) };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { [TARGETS_KEY]: text } };
    const options = { fieldManager: FIELD_MANAGER, force: true };
    await this.send((client, path) => client.apply(path, object, options));
    return true;
  }

  #parse(): void {
    if (this.current === undefined) return;
    const text = this.current.data?.[TARGETS_KEY] ?? "";
    if (text === this.#text) return;
    this.#text = text;
    const parsed = parseTargets(text);
    if ("code" in parsed) this.#log.warn({ code: parsed.code }, parsed.text);
    else this.#good = parsed;
  }
}
