import type { PodUpdater } from "#controller/rollout/pod-updater.ts";
import { runController } from "#controller/run.ts";
import { clusterDomainDiffers } from "#controller/targets/cluster-domain.ts";
import { agentSettings } from "#extras/agent/config.ts";
import { wildcardPods } from "#extras/pod-dns/config.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Probes } from "#lib/http/listen.ts";
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
  const updaters = await podUpdaters(config);
  return await withOwnClient(connect, (client) =>
    runController(config, {
      ...context,
      client,
      updaters,
      wildcardPods: wildcardPods(config),
      now: Date.now,
      ...(probes !== undefined && { probes }),
    }),
  );
}

/** What updates running pods without a restart: the agents, if they are enabled. */
async function podUpdaters(config: Config): Promise<PodUpdater[]> {
  const settings = agentSettings(config);
  if (!settings.enabled) return [];
  const { agentUpdater } = await import("#extras/agent/rollout/pod-updater.ts");
  return [agentUpdater(settings, config.pods)];
}
