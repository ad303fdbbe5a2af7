import { parseTargets } from "#lib/documents/targets-format.ts";
import { TARGETS_KEY, TARGETS_NAME } from "#lib/documents/targets-name.ts";
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

/** Reads the published targets. A missing or unreadable document has no targets. */
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
      const { items } = await client.list<{ readonly data?: Readonly<Record<string, string>> }>(path, {
        fieldSelector: `metadata.name=${TARGETS_NAME}`,
      });
      const document = parseTargets(items[0]?.data?.[TARGETS_KEY] ?? "");
      const targets = "code" in document ? [] : document.targets;
      const used = targets.filter(({ clusterIPs, unusedSince }) => clusterIPs.length > 0 && unusedSince === undefined);
      onRead(new Set(used.map(({ name }) => name)));
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
