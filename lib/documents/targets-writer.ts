import type { KubeClient } from "#lib/kube/client.ts";
import { FIELD_MANAGER, NO_VERSION } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type HeaderQuestion, parseQuestions, renderQuestions } from "./header-questions.ts";
import { type PublishedTarget, type PublishedTargets, parseTargets, renderTargets } from "./targets-format.ts";
import { QUESTIONS_KEY, TARGETS_KEY, TARGETS_NAME } from "./targets-name.ts";

interface RawConfigMap {
  readonly metadata: ObjectMeta;
  readonly data?: Readonly<Record<string, string>>;
}

/** The last seen version of the ConfigMap. */
interface Seen {
  readonly uid: string | undefined;
  readonly resourceVersion: string | undefined;
  readonly text: string;
  /** Undefined if nothing is asked. */
  readonly questions: string | undefined;
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
  #seen: Seen | undefined;
  /** The last document that parsed. */
  #good: PublishedTargets = { revision: "", targets: [] };
  /** The last questions that parsed. */
  #questions: readonly HeaderQuestion[] = [];

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

  /** The last publication of this or an earlier leader. A document that somebody has broken since is ignored. */
  get published(): PublishedTargets {
    return this.#good;
  }

  /** The last published questions of this or an earlier leader, with the answers. */
  get questions(): readonly HeaderQuestion[] {
    return this.#questions;
  }

  /**
   * Writes the targets and the questions, unless they are already published. `questions` is undefined if nothing is
   * ever asked. Returns whether it wrote. Throws the API server's errors: with status 409 if the document is not the
   * version that was seen last.
   */
  async write(targets: readonly PublishedTarget[], questions?: readonly HeaderQuestion[]): Promise<boolean> {
    const { client, namespace } = this.#deps;
    const { text } = renderTargets(targets);
    const asked = questions && renderQuestions(questions);
    if (text === this.#seen?.text && asked === this.#seen.questions) return false;
    const base = this.#seen;
    const { uid, resourceVersion = NO_VERSION } = base ?? {};
    const metadata = { name: TARGETS_NAME, namespace, resourceVersion, ...(uid && { uid }) };
    const data = { [TARGETS_KEY]: text, ...(asked !== undefined && { [QUESTIONS_KEY]: asked }) };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
    const path = corePath("configmaps", namespace, TARGETS_NAME);
    const written = await client.apply<RawConfigMap>(path, object, { fieldManager: FIELD_MANAGER, force: true });
    // Once the watch has another version, it shows this write or a later one. The answer may be older than that.
    if (this.#seen === base) this.#take(viewTargets(written));
    return true;
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  #take(seen: Seen | undefined): void {
    const before = this.#seen;
    this.#seen = seen;
    if (seen === undefined) return;
    if (seen.questions !== undefined && seen.questions !== before?.questions) this.#takeQuestions(seen.questions);
    if (seen.text === before?.text) return;
    const parsed = parseTargets(seen.text, this.#good);
    if (!("code" in parsed)) this.#good = parsed;
    for (const { code, text: problem } of "code" in parsed ? [parsed] : (parsed.refused ?? [])) {
      this.#deps.log.warn({ code }, problem);
    }
  }

  #takeQuestions(text: string): void {
    const questions = parseQuestions(text);
    if ("code" in questions) this.#deps.log.warn({ code: questions.code }, questions.text);
    else this.#questions = questions;
  }
}

function viewTargets({ metadata, data }: RawConfigMap): Seen {
  const { uid, resourceVersion } = metadata;
  return { uid, resourceVersion, text: data?.[TARGETS_KEY] ?? "", questions: data?.[QUESTIONS_KEY] };
}
