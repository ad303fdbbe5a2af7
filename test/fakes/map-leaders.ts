import { shortHash } from "#hostmap/hash.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { SnapshotBuilder } from "#lib/documents/map-builder.ts";
import { MAP_SELECTOR, type MapConfigMap, textOf } from "#lib/documents/map-format.ts";
import { KubeMapStore } from "#lib/documents/map-store-kube.ts";
import { MapWriter, type Snapshot } from "#lib/documents/map-writer.ts";
import { mapOfParts, parseShard } from "#lib/documents/published-map.ts";
import { builderOf } from "#lib/documents/read-map.ts";
import type { RenderedShard } from "#lib/documents/shards.ts";
import { hasCode, SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { Fence } from "#lib/kube/fence.ts";
import { corePath } from "#lib/kube/paths.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { turns } from "./stopped-time.ts";

// Leaders of the map, and readers of what they write. A test can stop a leader's process before any of its writes, and
// continue it later.

const MAX_TRIES = 50;

/** A snapshot with one shard for each text. */
export function snapshotOf(...texts: readonly string[]): Snapshot {
  const shards = texts.map((text, index): RenderedShard => ({ index, text, shardHash: shortHash(text) }));
  return { shards, targets: [{ name: "edge", clusterIPs: ["198.51.100.9"] }], hold: undefined };
}

/** A map, or a Reason, as a text that can be compared. */
function shown(result: PublishedMap | Reason): string {
  if ("code" in result) return result.code;
  return result.names.map((name) => `${name} ${result.addressesOf(name)}`).join();
}

/** The map that a snapshot contains, as a text. */
export function mapOf({ shards }: Snapshot): string {
  return shown(
    mapOfParts(
      "",
      shards.map(({ text }) => parseShard(text)),
    ),
  );
}

/** The Lease with its current holder. */
export interface TestLease {
  holder: TestLeader | undefined;
}

/** A controller that leads or has led. */
export class TestLeader {
  readonly writer: MapWriter;
  readonly #store: KubeMapStore;
  /** Paths of its waiting writes, in order. */
  readonly held: string[] = [];
  /** Results of the writes that were sent after a stop: `name: taken`, or the status of the refusal. */
  readonly late: string[] = [];
  readonly #stopped = Promise.withResolvers<void>();
  readonly #resumed = Promise.withResolvers<void>();
  #allowed = Number.POSITIVE_INFINITY;
  #isResumed = false;
  readonly #lease: TestLease;
  /** The signal of its term, which never aborts: the process does not learn that its term is over. */
  readonly #signal = new AbortController().signal;

  constructor(client: KubeClient, namespace: string, lease: TestLease) {
    this.#lease = lease;
    const call = async <T>(path: string, send: () => Promise<T>): Promise<T> => {
      const waits = --this.#allowed < 0;
      if (waits) await this.#wait(path);
      try {
        const answer = await send();
        if (waits) this.late.push(`${path.split("/").at(-1)}: taken`);
        return answer;
      } catch (error) {
        if (waits) this.late.push(`${path.split("/").at(-1)}: ${(error as { status?: number }).status}`);
        throw error;
      }
    };
    const gated: KubeClient = {
      ...client,
      apply: (path, object, options) => call(path, () => client.apply(path, object, options)),
      delete: (path, options) => call(path, () => client.delete(path, options)),
    };
    this.#store = new KubeMapStore({ client: gated, namespace, log: silentLogger });
    this.#store.start(() => {});
    const confirm = async () => {
      if (lease.holder !== this) throw new SwitchbackError("term-over", "another holds the Lease");
    };
    this.#store.fenceBy(new Fence({ client: gated, log: silentLogger, term: { confirm } }));
    this.writer = new MapWriter(this.#store);
  }

  async synced(): Promise<void> {
    while (!this.#store.synced) await new Promise(setImmediate);
  }

  /**
   * Begins a term and publishes. After a refusal, it tries again once the watch has delivered more, as the reconciler
   * does.
   */
  async lead(...snapshots: readonly Snapshot[]): Promise<void> {
    await this.begin();
    await this.publish(...snapshots);
  }

  async begin(): Promise<void> {
    this.#lease.holder = this;
    await this.#persist(() => this.writer.begin(this.#signal));
  }

  /** Publishes the snapshots, one after the other. */
  async publish(...snapshots: readonly Snapshot[]): Promise<void> {
    for (const snapshot of snapshots) await this.#persist(() => this.#publish(snapshot));
  }

  async #publish(snapshot: Snapshot): Promise<void> {
    for (let times = 0; this.writer.isStale(snapshot); times += 1) {
      if (times === MAX_TRIES) throw new Error("a publication does not come to rest");
      await this.writer.publish(snapshot, this.#signal);
    }
  }

  /** Stops the process after this many further writes. */
  stopAfter(writes: number): void {
    this.#allowed = writes;
  }

  /** Resolves when the process waits before a write, or when `work` has ended. */
  async stopped(work: Promise<void>): Promise<void> {
    await Promise.race([this.#stopped.promise, work]);
    // Lets other writes that were sent at the same time arrive.
    await turns(5);
  }

  /** Continues the process. */
  resume(): void {
    this.#isResumed = true;
    this.#resumed.resolve();
  }

  async close(): Promise<void> {
    await this.#store.stop();
  }

  async #wait(path: string): Promise<void> {
    this.held.push(path);
    this.#stopped.resolve();
    await this.#resumed.promise;
  }

  async #persist(work: () => Promise<void>): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        // If writes are sent together, one may wait while another fails. The process is stopped in this case too.
        if (this.held.length > 0) await this.#resumed.promise;
        if (this.#isResumed && hasCode(error, "term-over")) return;
        if ((error as { status?: number }).status !== 409 || tries === MAX_TRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    }
  }
}

/**
 * Keeps the ConfigMaps of the map after each write, and what two readers make of them. One reader follows from the
 * beginning; the other one starts after each write.
 */
export class MapReaders {
  readonly #objects = new Map<string, MapConfigMap>();
  readonly #following = new SnapshotBuilder();
  readonly #end = new AbortController();
  /** Results after each write, for the following reader and for the starting reader. */
  readonly states: Array<readonly [following: string, starting: string]> = [];

  /** Starts to follow the map. */
  start(client: KubeClient, namespace: string): void {
    const onLine = (line: string) => this.#take(JSON.parse(line));
    const options = { signal: this.#end.signal, idleMs: 60_000, maxMs: 600_000, onLine };
    client
      .stream(corePath("configmaps", namespace), { watch: true, labelSelector: MAP_SELECTOR }, options)
      .catch(() => {});
  }

  stop(): void {
    this.#end.abort();
  }

  #take({ type, object }: { readonly type: string; readonly object: MapConfigMap }): void {
    const { name } = object.metadata;
    if (type === "DELETED") this.#objects.delete(name);
    else this.#objects.set(name, object);
    this.#following.put(name, type === "DELETED" ? undefined : textOf(object));
    const all = [...this.#objects.values()];
    const at = this.states.length % Math.max(1, all.length);
    // A starting reader gets the ConfigMaps in another order each time.
    const listed = [...all.slice(at), ...all.slice(0, at)];
    const starting = builderOf(listed);
    this.states.push([shown(this.#following.build()), shown(starting.build())]);
  }
}
