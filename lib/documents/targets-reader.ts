import { readFileSync } from "node:fs";
import type { Reason } from "#hostmap/types.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { readConfigMap, watchConfigMap } from "./config-map.ts";
import { type PublishedTargets, parseTargets, TARGETS_KEY, TARGETS_NAME } from "./targets-format.ts";

/** A reader that follows the published targets. */
export interface TargetsReader {
  /**
   * Calls `found` with each document that parses, and with `undefined` when there is certainly none. A document that
   * cannot be parsed is only logged, and the last good targets stay.
   */
  start(found: (targets: PublishedTargets | undefined) => void): { stop(): Promise<void> };
}

/** Follows the controller's ConfigMap. It is the only object that the proxy may read. */
export function kubeTargetsReader(deps: Parameters<typeof watchConfigMap>[1]): TargetsReader {
  const { log } = deps;
  return {
    start(found) {
      const watcher = watchConfigMap<string>(TARGETS_NAME, deps, {
        project: ({ data }) => data?.[TARGETS_KEY] ?? "",
        onChange: ({ before, after }) => {
          // The controller writes a deleted ConfigMap again. The deletion does not mean that the targets are gone.
          if (after === undefined || after === before) return;
          const targets = read(after, log);
          if (targets !== undefined) found(targets);
        },
        onSynced: () => {
          if (watcher.objects().size === 0) found(undefined);
        },
      });
      return watcher;
    },
  };
}

/**
 * Reads the published targets once. Returns a Reason if they do not parse, and undefined if the key is missing.
 * Rejects if the API server refuses.
 */
export async function readTargets(
  client: Pick<KubeClient, "get">,
  namespace: string,
): Promise<PublishedTargets | Reason | undefined> {
  const text = (await readConfigMap(client, namespace, TARGETS_NAME)).data?.[TARGETS_KEY];
  return text === undefined ? undefined : parseTargets(text);
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
  return read(text, log);
}

/** Parses the document. Returns undefined if it is invalid. */
function read(text: string, log: Logger): PublishedTargets | undefined {
  const targets = parseTargets(text);
  if (!("code" in targets)) return targets;
  log.error({ code: targets.code }, `${targets.text}; the last good targets stay`);
  return undefined;
}
