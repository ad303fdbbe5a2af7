import { readFileSync } from "node:fs";
import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import { watchObjects } from "../kube/watch.ts";
import type { Logger } from "../telemetry/log.ts";
import { type PublishedTargets, parseTargets, TARGETS_KEY, TARGETS_NAME } from "./targets-format.ts";

/** Tells what to relay to, again and again. */
export interface TargetsReader {
  /**
   * `found` hears of each document that makes sense, and of `undefined` when it is certain that there is none. What cannot be read
   * is not told: the last good targets stay.
   */
  start(found: (targets: PublishedTargets | undefined) => void): { stop(): Promise<void> };
}

interface RawConfigMap {
  readonly data?: Readonly<Record<string, string>>;
}

/** The controller's ConfigMap: the one object that the proxy may read. */
export function configMapTargets(deps: {
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
          // Deleted: the controller writes it again. Until then nothing says that the targets are gone.
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
 * The copy that the kubelet has put into the pod: for a start while the API server is away. It is as old as the pod or newer;
 * undefined when there is none that makes sense.
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
