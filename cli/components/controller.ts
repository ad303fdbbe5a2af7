import type { ObserveAgents } from "#controller/rollout/workload.ts";
import { runController } from "#controller/run.ts";
import { agentSettings } from "#extras/agent/config.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Probes } from "#lib/http/listen.ts";
import { clusterDomainDiffers } from "#lib/process/resolv-conf.ts";
import { type ProcessContext, type Running, withOwnClient } from "#lib/process/running.ts";

/**
 * `switchback controller`. In a process with several parts, `probes` turns the controller's own probes into those of
 * the whole process. The controller's health server answers with them.
 */
export async function startController(
  config: Config,
  { connect, ...context }: ProcessContext,
  probes?: (own: Probes) => Probes,
): Promise<Running> {
  const differs = clusterDomainDiffers(config.clusterDomain, context.resolvConf);
  if (differs !== undefined) context.log.warn({ ...differs }, "the configured cluster domain is not that of this pod");
  const observeAgents = await agentsOf(config);
  return await withOwnClient(connect, (client) =>
    runController(config, {
      ...context,
      client,
      observeAgents,
      now: Date.now,
      ...(probes !== undefined && { probes }),
    }),
  );
}

/** The agents, which update running pods without a restart. Undefined: they are not enabled. */
async function agentsOf(config: Config): Promise<ObserveAgents | undefined> {
  const settings = agentSettings(config);
  if (!settings.enabled) return undefined;
  const { observeAgents } = await import("#extras/agent/rollout/lease-reader.ts");
  return observeAgents(settings.namespace, config.pods);
}
