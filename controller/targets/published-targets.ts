import { type MapConfigMap, parseState, STATE_KEY, STATE_NAME } from "#lib/documents/map-format.ts";
import { describeError } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import type { Logger } from "#lib/telemetry/log.ts";

/** The targets that had names when this replica started. They win over other Services that share their address. */
export interface PublishedTargetNames {
  /** Reads the names once, and retries until that succeeds. Then it calls `onRead`. */
  start(onRead: (names: ReadonlySet<string>) => void): void;
  stop(): Promise<void>;
}

const RETRY_MS = 5_000;

/** Reads the state of the published map. A missing or unreadable state has no targets. */
export function publishedTargetNames(deps: {
  readonly client: Pick<KubeClient, "list">;
  /** Our own namespace. */
  readonly namespace: string;
  readonly log: Logger;
}): PublishedTargetNames {
  const { client, namespace, log } = deps;
  let onRead: (names: ReadonlySet<string>) => void = () => {};
  const reader = new Reconciler({
    reconcile: async () => {
      const path = corePath("configmaps", namespace);
      const { items } = await client.list<MapConfigMap>(path, { fieldSelector: `metadata.name=${STATE_NAME}` });
      const state = parseState(items[0]?.data?.[STATE_KEY] ?? "");
      const targets = "code" in state ? [] : state.targets.filter(({ clusterIPs }) => clusterIPs.length > 0);
      onRead(new Set(targets.map(({ name }) => name)));
      return undefined;
    },
    retry: {
      backoff: createBackoff(RETRY_MS, RETRY_MS),
      onError: (error) => log.warn({ code: "targets-not-read" }, describeError(error)),
    },
  });
  return {
    start(callback) {
      onRead = callback;
      reader.enqueue();
    },
    stop: () => reader.stop(),
  };
}
