import { MAP_KEY } from "../hostmap/metadata-keys.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath } from "../kube/paths.ts";
import type { StartTimer } from "../kube/time.ts";
import type { ApiObject } from "../kube/types.ts";
import { watchObjects } from "../kube/watch.ts";
import type { Logger } from "../telemetry/log.ts";
import { createSnapshotBuilder } from "./map-builder.ts";
import { followMap } from "./map-follower.ts";
import { INDEX_KEY, INDEX_NAME, SHARD_KEY } from "./map-objects.ts";
import type { MapSource } from "./map-source.ts";

/** What is kept of a ConfigMap: a shard's text is read at once, so that a publication parses what it changed and no more. */
interface Part {
  readonly name: string;
  readonly text: string;
}

type ConfigMap = ApiObject & { data?: Readonly<Record<string, string>> };

/** The map as the controller publishes it: ConfigMaps of our own namespace, by their label. */
export function configMapSource(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly namespace: string;
  readonly log: Logger;
  readonly startTimer?: StartTimer;
}): MapSource {
  return {
    start(found) {
      const assembler = createSnapshotBuilder();
      const follower = followMap(assembler, found, deps.startTimer);
      const watcher = watchObjects<Part, ConfigMap>({
        client: deps.client,
        path: corePath("configmaps", deps.namespace),
        labelSelector: `${MAP_KEY}=hosts`,
        project: partOf,
        onChange({ before, after }) {
          const name = (after ?? before)?.name;
          if (name === INDEX_NAME) assembler.putIndex(after?.text);
          else if (name?.startsWith(`${INDEX_NAME}-`)) assembler.putShard(name, after?.text);
          follower.changed();
        },
        onSynced: () => follower.synced(),
        log: deps.log,
      });
      return {
        inactiveMs: () => watcher.state.inactiveMs,
        async stop() {
          follower.stop();
          await watcher.stop();
        },
      };
    },
  };
}

function partOf({ metadata, data }: ConfigMap): Part {
  const name = metadata?.name ?? "";
  return { name, text: data?.[name === INDEX_NAME ? INDEX_KEY : SHARD_KEY] ?? "" };
}
