import { kubeMapReader, type Subscription } from "#lib/documents/map-reader.ts";
import { connect } from "#lib/kube/connect.ts";
import { corePath } from "#lib/kube/paths.ts";
import { watchObjects } from "#lib/kube/watch.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import type { ControlPlane } from "#test/cluster/controlplane.ts";
import type { Bed } from "./bed.ts";
import { NAMESPACE } from "./serve.ts";

/** The front Services' addresses. */
const OURS = /^198\.51\./;

/** Reads the published map like a webhook: a name counts when this reader has it with an address of ours. */
export class MapFollower {
  /** Bytes of all events that this reader has received. */
  bytes = 0;
  readonly #awaited = new Map<string, PromiseWithResolvers<number>>();
  #sizeAwaited: { readonly names: number; readonly resolve: (at: number) => void } | undefined;
  #size = 0;
  #subscription: Subscription | undefined;
  #close = (): void => {};

  async start(cluster: ControlPlane): Promise<void> {
    const client = await connect({ kubeconfig: cluster.adminKubeconfig });
    const stream: typeof client.stream = (path, query, options) =>
      client.stream(path, query, {
        ...options,
        onLine: (line) => {
          this.bytes += line.length;
          options.onLine(line);
        },
      });
    const reader = kubeMapReader({ client: { get: client.get, stream }, namespace: NAMESPACE, log: silentLogger });
    this.#close = () => client.close();
    this.#subscription = reader.start((offer) => {
      if (!("revision" in offer)) return;
      const at = performance.now();
      this.#size = offer.hosts.length;
      if (this.#sizeAwaited !== undefined && this.#size >= this.#sizeAwaited.names) this.#sizeAwaited.resolve(at);
      for (const [name, { resolve, reject }] of this.#awaited) {
        const [address] = offer.lines.get(name)?.addresses ?? [];
        if (address === undefined) continue;
        this.#awaited.delete(name);
        if (OURS.test(address)) resolve(at);
        else reject(new Error(`${name} is mapped to ${address}`));
      }
    });
  }

  async stop(): Promise<void> {
    await this.#subscription?.stop();
    this.#close();
  }

  /** Resolves to the time, of `performance.now()`, when the name was there. Call it before the change. */
  published(name: string): Promise<number> {
    const awaited = Promise.withResolvers<number>();
    this.#awaited.set(name, awaited);
    return awaited.promise;
  }

  /** Resolves to the time when a map had at least this many names. */
  size(names: number): Promise<number> {
    if (this.#size >= names) return Promise.resolve(performance.now());
    return new Promise((resolve) => {
      this.#sizeAwaited = { names, resolve };
    });
  }
}

/**
 * The API server's own part of a publication, in milliseconds: the write of an object, until a watch has it; then the
 * write of another object, until the watch has that one.
 */
export async function bareTimes(bed: Bed, count: number): Promise<number[]> {
  const client = await connect({ kubeconfig: bed.cluster.adminKubeconfig });
  const path = corePath("configmaps", "default");
  const awaited = new Map<string, () => void>();
  const watcher = watchObjects<string>({
    client,
    path,
    project: ({ metadata }) => metadata?.name,
    onChange: ({ after = "" }) => awaited.get(after)?.(),
    log: silentLogger,
  });
  const write = async (name: string): Promise<void> => {
    const seen = new Promise<void>((resolve) => awaited.set(name, resolve));
    await bed.create(path, { metadata: { name } });
    await seen;
  };
  await write("first");
  const times: number[] = [];
  for (let number = 0; number < count; number += 1) {
    const at = performance.now();
    await write(`object-${number}`);
    await write(`copy-${number}`);
    times.push(performance.now() - at);
  }
  await watcher.stop();
  client.close();
  return times;
}
