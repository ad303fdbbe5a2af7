import { agent } from "#extras/agent/extra.ts";
import { dashboard } from "#extras/dashboard/extra.ts";
import type { Extra } from "#extras/extra.ts";
import { podDns } from "#extras/pod-dns/extra.ts";
import { publishers } from "#extras/publishers/extra.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { Delivery } from "#webhook/delivery.ts";

/** The optional parts. To drop one, delete its folder and its entry here, and run `npm run gen`. */
export const EXTRAS: readonly Extra[] = [agent, dashboard, podDns, publishers];

/** The pods that get every name below a wildcard, in words; undefined: no pod does. */
export async function wildcardPodsOf(config: Config): Promise<string | undefined> {
  const all = await Promise.all(EXTRAS.map(({ wildcardPods }) => wildcardPods?.(config)));
  return all.find((pods) => pods !== undefined);
}

/** Starts every way other than hostAliases by which pods can get the names. */
export async function startDeliveries(config: Config, log: Logger): Promise<readonly Delivery[]> {
  const starts = await Promise.all(EXTRAS.map(({ startDelivery }) => startDelivery?.(config, log)));
  return starts.filter((delivery) => delivery !== undefined);
}
