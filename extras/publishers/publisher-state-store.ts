import type { Reason } from "#hostmap/types.ts";
import { ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { PUBLISHERS, type PublisherName } from "./names.ts";
import {
  ORIGINAL_KEY,
  PUBLISHER_LABEL,
  type PublisherState,
  parsePublisherState,
  publisherStateName,
  renderPublisherState,
  STATE_KEY,
} from "./publisher-state.ts";

interface RawConfigMap {
  readonly metadata: ObjectMeta;
  readonly data?: Readonly<Record<string, string>>;
}

/** A publisher's stored document. */
export interface StoredPublisherState {
  readonly state: PublisherState | Reason;
  readonly original: string | undefined;
  readonly resourceVersion: string;
}

type Client = Pick<KubeClient, "get" | "create" | "replace" | "delete">;

/**
 * The document of one publisher. Every write names the version that it replaces, so that no write of another process
 * is lost.
 */
export class PublisherStateStore {
  readonly #client: Client;
  readonly #namespace: string;
  readonly #publisher: string;

  constructor(client: Client, namespace: string, publisher: string) {
    this.#client = client;
    this.#namespace = namespace;
    this.#publisher = publisher;
  }

  /** Returns undefined if nothing is stored. Rejects with the client's errors, and with `data-corrupt`. */
  async read(signal?: AbortSignal): Promise<StoredPublisherState | undefined> {
    const options = signal === undefined ? {} : { signal };
    const found = await ifFound(this.#client.get<Partial<RawConfigMap>>(this.#path, {}, options));
    return found && viewOf(this.#checked(found));
  }

  /** Replaces `before`, or creates the document. Rejects with status 409 if another writer was faster. */
  async write(
    state: PublisherState,
    original: string | undefined,
    before: StoredPublisherState | undefined,
  ): Promise<StoredPublisherState> {
    const data = {
      [STATE_KEY]: renderPublisherState(state),
      ...(original !== undefined && { [ORIGINAL_KEY]: original }),
    };
    const metadata = {
      name: publisherStateName(this.#publisher),
      namespace: this.#namespace,
      labels: { [PUBLISHER_LABEL]: this.#publisher },
      ...(before !== undefined && { resourceVersion: before.resourceVersion }),
    };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
    const written =
      before === undefined
        ? await this.#client.create<RawConfigMap>(corePath("configmaps", this.#namespace), object)
        : await this.#client.replace<RawConfigMap>(this.#path, object);
    return viewOf(written);
  }

  /** Deletes the document if it exists. */
  async delete(): Promise<void> {
    await ifFound(this.#client.delete(this.#path));
  }

  /** Checks that a response is the ConfigMap of this publisher. */
  #checked({ metadata, data }: Partial<RawConfigMap>): RawConfigMap {
    if (metadata?.name === publisherStateName(this.#publisher)) return { metadata, ...(data && { data }) };
    throw new SwitchbackError("data-corrupt", `GET ${this.#path}: the response is not that ConfigMap`);
  }

  get #path(): string {
    return corePath("configmaps", this.#namespace, publisherStateName(this.#publisher));
  }
}

/** Returns the documents of all publishers that have left one, by name. Rejects with the client's errors. */
export async function readPublisherStates(
  client: Client,
  namespace: string,
): Promise<ReadonlyMap<PublisherName, PublisherState | Reason>> {
  const states = new Map<PublisherName, PublisherState | Reason>();
  for (const name of PUBLISHERS) {
    const stored = await new PublisherStateStore(client, namespace, name).read();
    if (stored !== undefined) states.set(name, stored.state);
  }
  return states;
}

function viewOf({ metadata, data }: RawConfigMap): StoredPublisherState {
  return {
    state: parsePublisherState(data?.[STATE_KEY]),
    original: data?.[ORIGINAL_KEY],
    resourceVersion: metadata.resourceVersion ?? "",
  };
}
