import type { Config } from "#lib/config/schema.ts";

/** The limits of restarting, in milliseconds. */
export interface RestartRules {
  readonly dryRun: boolean;
  readonly debounceMs: number;
  /** Upper bound of the debounce while names keep changing. */
  readonly maxDebounceMs: number;
  readonly minIntervalMs: number;
  readonly maxIntervalMs: number;
  readonly dailyBudget: number;
  readonly vanishedMs: number;
  readonly revertMs: number;
  readonly rolloutMs: number;
  /**
   * After this many unsuccessful restarts in a row, the cause is in Switchback or the cluster, not in the workloads.
   */
  readonly holdAfter: number;
  readonly holdMs: number;
  /** An updater (`PodUpdater`) that is behind for this long is not expected to catch up by itself. */
  readonly updaterMs: number;
}

export function restartRules({ restart: config, pods }: Pick<Config, "restart" | "pods">): RestartRules {
  return {
    dryRun: config.dryRun,
    debounceMs: config.debounceSeconds * 1000,
    maxDebounceMs: Math.max(config.debounceSeconds, config.maxDebounceSeconds) * 1000,
    minIntervalMs: config.minIntervalSeconds * 1000,
    maxIntervalMs: config.maxIntervalSeconds * 1000,
    dailyBudget: config.dailyBudget,
    vanishedMs: config.vanishedSeconds * 1000,
    revertMs: config.revertSeconds * 1000,
    rolloutMs: config.rolloutSeconds * 1000,
    holdAfter: config.holdAfter,
    holdMs: config.holdSeconds * 1000,
    updaterMs: pods.agentSilenceSeconds * 1000,
  };
}
