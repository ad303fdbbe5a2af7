import { readFileSync } from "node:fs";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type PublishedTargets, parseTargets } from "./targets-format.ts";
import { TARGETS_KEY, TARGETS_NAME } from "./targets-name.ts";

/** A reader that follows the published targets. */
export interface TargetsReader {
  /**
   * Calls `found` with each document that parses, and with `undefined` when there is certainly none. A document
   * that cannot be read is logged only: the last good targets stay.
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
      let last: PublishedTargets | undefined;
      const watcher = watchObjects<string, RawConfigMap>({
        client,
        path: corePath("configmaps", namespace),
        fieldSelector: `metadata.name=${TARGETS_NAME}`,
        project: ({ data }) => data?.[TARGETS_KEY] ?? "",
        onChange: ({ after }) => {
          // A deleted ConfigMap is written again by the controller. It does not mean that the targets are gone.
          const targets = after === undefined ? undefined : read(after, log, last);
          if (targets === undefined) return;
          last = targets;
          found(targets);
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
 * Reads the copy that the kubelet mounts into the pod, for a start while the API server is away. It is as old as
 * the pod or newer. Undefined: it is missing, or does not parse.
 */
export function mountedTargets(path: string, log: Logger): PublishedTargets | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
  return read(text, log, undefined);
}

/** Undefined: the document cannot be read. */
function read(text: string, log: Logger, last: PublishedTargets | undefined): PublishedTargets | undefined {
  const targets = parseTargets(text, last);
  if ("code" in targets) {
    log.error({ code: targets.code }, `${targets.text}; the last good targets stay`);
    return undefined;
  }
  for (const { code, text: problem } of targets.refused ?? [])
    log.error({ code }, `${problem}; the other targets stand`);
  return targets;
}
