import type { KubeClient } from "#lib/kube/client.ts";
import { Fence } from "#lib/kube/fence.ts";
import { silentLogger } from "#lib/telemetry/log.ts";

/** The fence of a term that never ends. */
export function endlessTerm(client: KubeClient): Fence {
  return new Fence({ client, term: { confirm: async () => {} }, log: silentLogger });
}
