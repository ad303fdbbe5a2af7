import type { PodUpdater } from "#controller/rollout/pod-updater.ts";
import type { Config } from "#lib/config/schema.ts";
import type { AgentSettings } from "../config.ts";
import { AgentLeaseReader } from "./lease-reader.ts";

/** Observes, through the agents' Leases, which revisions running pods have. */
export function agentUpdater({ namespace, renewSeconds }: AgentSettings, pods: Config["pods"]): PodUpdater {
  const silenceMs = pods.agentSilenceSeconds * 1000;
  // A working agent renews its Lease at least once in this time.
  const graceMs = renewSeconds * 2_000;
  return { observe: (deps) => new AgentLeaseReader({ ...deps, namespace, silenceMs, graceMs }) };
}
