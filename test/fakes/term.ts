import type { KubeClient } from "../../kube/client.ts";
import { Fence } from "../../kube/fence.ts";
import { silentLogger } from "../../telemetry/log.ts";

/** The fence of a term that does not end. */
export function endlessTerm(client: KubeClient): Fence {
  return new Fence({ client, term: { confirm: async () => {} }, log: silentLogger });
}
