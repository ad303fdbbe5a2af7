import { runController } from "#controller/run.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Probes } from "#lib/http/listen.ts";

import { type ProcessContext, type Running, withOwnClient } from "#lib/process/running.ts";

/**
 * `switchback controller`. `probes` makes the answers of its health server from its own, where it answers for a
 * whole process.
 */
export async function startController(
  config: Config,
  { connect, ...context }: ProcessContext,
  probes?: (own: Probes) => Probes,
): Promise<Running> {
  return await withOwnClient(connect, (client) =>
    runController(config, { ...context, client, now: Date.now, ...(probes !== undefined && { probes }) }),
  );
}
