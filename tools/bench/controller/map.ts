import { once } from "node:events";
import { request } from "node:https";
import { createInterface } from "node:readline";
import { shortHash } from "#hostmap/hash.ts";
import {
  INDEX_NAME,
  isNamedHash,
  isShardName,
  MAP_SELECTOR,
  type MapIndex,
  parseIndex,
  textOf,
} from "#lib/documents/map-format.ts";
import type { ControlPlane } from "#test/cluster/controlplane.ts";

interface ConfigMapEvent {
  readonly type: string;
  readonly object: { readonly metadata: { readonly name: string }; readonly data?: Readonly<Record<string, string>> };
}

/** One received index. Times are `performance.now()`. */
export interface SeenPublication {
  readonly at: number;
  readonly revision: string;
  /** Bytes of the index and of the shards written since the previous index. */
  readonly bytes: number;
  /** Number of names in the map. */
  readonly names: number;
}

interface Shard {
  readonly text: string;
  readonly revision: string;
  readonly names: readonly string[];
}

/**
 * Reads the published map like a consumer. A name is published if the index refers to a shard, the shard's text has
 * the revision in the index, and the text has the name.
 */
export class MapFollower {
  readonly publications: SeenPublication[] = [];
  readonly #cluster: ControlPlane;
  readonly #namespace: string;
  readonly #shards = new Map<string, Shard>();
  /** Revision of each shard in the last index. */
  #counted = new Map<string, string>();
  readonly #awaited = new Map<string, (at: number) => void>();
  #sizeAwaited: { readonly names: number; readonly resolve: (at: number) => void } | undefined;
  #bytes = 0;
  #close: () => void = () => {};
  #failed: (error: Error) => void = () => {};
  /** Rejects when the watch ends, because there is nothing to measure then. */
  readonly broken: Promise<never>;

  constructor(cluster: ControlPlane, namespace: string) {
    this.#cluster = cluster;
    this.#namespace = namespace;
    this.broken = new Promise((_resolve, reject) => {
      this.#failed = reject;
    });
    this.broken.catch(() => {});
  }

  /** Resolves when the watch is open. */
  async start(): Promise<void> {
    const query = `watch=true&timeoutSeconds=86400&labelSelector=${encodeURIComponent(MAP_SELECTOR)}`;
    const sent = request(new URL(`/api/v1/namespaces/${this.#namespace}/configmaps?${query}`, this.#cluster.url), {
      ca: this.#cluster.ca.cert,
      headers: { authorization: `Bearer ${this.#cluster.adminToken}` },
      agent: false,
    });
    sent.end();
    const [response] = await once(sent, "response");
    if (response.statusCode !== 200) throw new Error(`the watch of the map answered ${response.statusCode}`);
    const lines = createInterface({ input: response });
    lines.on("line", (line) => {
      try {
        this.#take(JSON.parse(line), performance.now());
      } catch (error) {
        this.#failed(error as Error);
      }
    });
    // readline forwards errors of its input.
    lines.on("error", this.#failed);
    lines.on("close", () => this.#failed(new Error("the watch of the map ended")));
    this.#close = () => sent.destroy();
  }

  stop(): void {
    this.#close();
  }

  /** Resolves to the time when the name was published. Call it before the change. */
  published(name: string): Promise<number> {
    return new Promise((resolve) => this.#awaited.set(name, resolve));
  }

  /** Resolves to the time when a map with at least this many names was published. */
  size(names: number): Promise<number> {
    return new Promise((resolve) => {
      this.#sizeAwaited = { names, resolve };
    });
  }

  /** Number of awaited names that are not published yet. */
  get missing(): number {
    return this.#awaited.size;
  }

  /** Number of shards and bytes in the last index. */
  summary(): { readonly shards: number; readonly bytes: number } {
    const shards = [...this.#counted.keys()].map((name) => this.#shards.get(name)?.text.length ?? 0);
    return { shards: shards.length, bytes: shards.reduce((sum, bytes) => sum + bytes, 0) };
  }

  #take({ type, object }: ConfigMapEvent, at: number): void {
    const { name } = object.metadata;
    if (type === "DELETED") {
      this.#shards.delete(name);
      if (name === INDEX_NAME) this.#counted = new Map();
      return;
    }
    if (type !== "ADDED" && type !== "MODIFIED") throw new Error(`the watch of the map sent ${type}`);
    const text = textOf(object) ?? "";
    this.#bytes += text.length;
    const index = name === INDEX_NAME ? parseIndex(text) : undefined;
    if (index !== undefined && "code" in index) throw new Error(index.text);
    if (index !== undefined) this.#takeIndex(index, at);
    else if (isShardName(name)) this.#shards.set(name, { text, revision: shortHash(text), names: namesOf(text) });
  }

  #takeIndex({ revision, shards }: MapIndex, at: number): void {
    const counted = new Map<string, string>();
    let names = 0;
    for (const { name, revision: named } of shards) {
      const shard = this.#shards.get(name);
      if (shard === undefined || !isNamedHash(shard.revision, named))
        throw new Error(`the index names ${name} at ${named}, but that is not what is there`);
      counted.set(name, named);
      names += shard.names.length;
      if (this.#counted.get(name) !== named) this.#tell(shard.names, at);
    }
    this.#counted = counted;
    this.publications.push({ at, revision, bytes: this.#bytes, names });
    this.#bytes = 0;
    if (this.#sizeAwaited !== undefined && names >= this.#sizeAwaited.names) {
      this.#sizeAwaited.resolve(at);
      this.#sizeAwaited = undefined;
    }
  }

  #tell(names: readonly string[], at: number): void {
    if (this.#awaited.size === 0) return;
    for (const name of names) {
      this.#awaited.get(name)?.(at);
      this.#awaited.delete(name);
    }
  }
}

/** The names in hosts(5) text, without comments. A name with two addresses has two consecutive lines. */
function namesOf(text: string): string[] {
  const names: string[] = [];
  for (const line of text.split("\n")) {
    const [, name = ""] = line.split(" ", 2);
    if (name !== "" && names.at(-1) !== name) names.push(name);
  }
  return names;
}
