import { readFileSync } from "node:fs";
import type { Reason } from "../hostmap/types.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import { watchObjects } from "../kube/watch.ts";
import type { Logger } from "../telemetry/log.ts";
import { type PublishedTargets, parseTargets, TARGETS_KEY, TARGETS_NAME } from "./targets-format.ts";

/** A reader that follows the published targets. */
export interface TargetsReader {
  /**
   * Calls `found` with each document that parses, and with `undefined` when there is certainly none. A document that cannot be
   * read is logged only: the last good targets stay.
   */
  start(found: (targets: PublishedTargets | undefined) => void): { stop(): Promise<void> };
}

interface RawConfigMap {
  readonly data?: Readonly<Record<string, string>>;
}

/** Follows the controller's ConfigMap, the only object that the proxy may read. */
export function kubeTargetsReader(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  /** Our own namespace. */
  readonly namespace: string;
  readonly log: Logger;
}): TargetsReader {
  const { client, namespace, log } = deps;
  return {
    start(found) {
      const watcher = watchObjects<string, RawConfigMap>({
        client,
        path: corePath("configmaps", namespace),
        fieldSelector: `metadata.name=${TARGETS_NAME}`,
        project: ({ data }) => data?.[TARGETS_KEY] ?? "",
        onChange: ({ after }) => {
          // A deleted ConfigMap is written again by the controller. It does not mean that the targets are gone.
          if (after !== undefined) read(after, log, found);
        },
        onSynced: () => {
          if (watcher.objects().size === 0) found(undefined);
        },
        log,
      });
      return watcher;
    },
  };
}

/**
 * Reads the copy that the kubelet mounts into the pod, for a start while the API server is away. It is as old as the pod or newer.
 * Undefined: there is none, or it does not parse.
 */
export function mountedTargets(path: string, log: Logger): PublishedTargets | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
  let targets: PublishedTargets | undefined;
  read(text, log, (found) => {
    targets = found;
  });
  return targets;
}

function read(text: string, log: Logger, found: (targets: PublishedTargets) => void): void {
  const targets = parseTargets(text);
  if ("code" in targets) log.error({ code: targets.code }, `${targets.text}; the last good targets stay`);
  else found(targets);
}

/** Reads the published targets once; a Reason if they do not parse, undefined if the key is missing. Rejects if the API server refuses. */
export async function readTargets(
  client: Pick<KubeClient, "get">,
  namespace: string,
): Promise<PublishedTargets | Reason | undefined> {
  const { data } = await client.get<RawConfigMap>(corePath("configmaps", namespace, TARGETS_NAME));
  const text = data?.[TARGETS_KEY];
  return text === undefined ? undefined : parseTargets(text);
}
