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
   * Calls `found` with each document that parses, and with `undefined` when there is certainly none. A document that
   * cannot be parsed is only logged, and the last good targets stay.
   */
  start(found: (targets: PublishedTargets | undefined) => void): { stop(): Promise<void> };
}

interface RawConfigMap {
  readonly data?: Readonly<Record<string, string>>;
}

/** Follows the controller's ConfigMap. It is the only object that the proxy may read. */
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
        onChange: ({ before, after }) => {
          // The controller writes a deleted ConfigMap again. The deletion does not mean that the targets are gone.
          if (after === undefined || after === before) return;
          const targets = read(after, log, last);
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
 * Reads the copy that the kubelet mounts into the pod, for a start while the API server is unavailable. The copy is
 * at least as new as the pod. Returns undefined if it is missing or invalid.
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

/** Parses the document. Returns undefined if it is invalid. */
function read(text: string, log: Logger, last: PublishedTargets | undefined): PublishedTargets | undefined {
  const targets = parseTargets(text, last);
  if ("code" in targets) {
    log.error({ code: targets.code }, `${targets.text}; the last good targets stay`);
    return undefined;
  }
  for (const { code, text: problem } of targets.refused ?? [])
    log.error({ code }, `${problem}; the other targets are used`);
  return targets;
}
