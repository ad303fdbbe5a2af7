import { SwitchbackError } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { connect, connectOptionsFrom } from "../kube/connect.ts";
import { pause } from "../kube/time.ts";
import { stamp } from "../running/history.ts";
import type { WorkloadStatus } from "../running/report.ts";
import { isWorkloadKind, type WorkloadKind, workloadPath } from "../running/workload-kinds.ts";
import { type RawWorkload, workloadState } from "../running/workload-state.ts";
import { restartPatch } from "../running/workloads.ts";
import { ask } from "./ask.ts";
import { leaderStatus } from "./leader-status.ts";
import type { CliContext } from "./main.ts";

export interface RestartFlags {
  readonly namespace: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly yes?: boolean;
  /** Seconds. */
  readonly timeout: number;
}

const POLL_MS = 500;

/**
 * Restarts workloads whose pods have not the current names, with the caller's own rights: what the install may not do, or has given
 * up. `what` is `NAMESPACE` (all of its stale workloads) or `NAMESPACE/WORKLOAD`. One after the other, each until it is rolled out.
 */
export async function restart(what: string, flags: RestartFlags, { env, stdout }: CliContext): Promise<void> {
  const client = await connect(connectOptionsFrom(env, flags));
  const say = (line: string) => void stdout.write(`${line}\n`);
  try {
    const chosen = choose(what, (await leaderStatus(client, flags.namespace)).running?.workloads);
    if (chosen.length === 0) return say("nothing to do: its pods have the current names");
    for (const each of chosen)
      say(`${each.kind} ${each.namespace}/${each.name}: ${each.stale} of ${each.pods} pods stale`);
    if (!flags.yes && !(await ask("restart? [y/N] "))) return say("nothing was changed");
    for (const each of chosen) {
      await restartOne(client, each, flags.timeout * 1000);
      say(`${each.kind} ${each.namespace}/${each.name} is restarted`);
    }
  } finally {
    client.close();
  }
}

/** The stale ones of what was named. Throws `input-invalid` for what is not there, or is nothing that can be restarted. */
export function choose(what: string, all: readonly WorkloadStatus[] | undefined): WorkloadStatus[] {
  const [namespace = "", name, ...more] = what.split("/");
  if (namespace === "" || name === "" || more.length > 0) {
    throw new SwitchbackError("input-invalid", `${what}: expected NAMESPACE or NAMESPACE/WORKLOAD`);
  }
  if (all === undefined) throw new SwitchbackError("kube-unreachable", "no controller leads at the moment: try again");
  const named = all.filter((each) => each.namespace === namespace && (name === undefined || each.name === name));
  if (named.length === 0) {
    const message = `${what}: no opted-in pods of it are known; \`switchback status\` lists those that are`;
    throw new SwitchbackError("input-invalid", message);
  }
  const [other] = named.filter(({ kind }) => !isWorkloadKind(kind));
  if (name !== undefined && other !== undefined) {
    throw new SwitchbackError("input-invalid", `${what} is a ${other.kind}: delete its pods, or make it anew`);
  }
  return named.filter(({ kind, stale }) => stale > 0 && isWorkloadKind(kind));
}

async function restartOne(client: KubeClient, workload: WorkloadStatus, timeoutMs: number): Promise<void> {
  const kind = workload.kind as WorkloadKind;
  const path = workloadPath(workload.namespace, kind, workload.name);
  const read = async () => workloadState(kind, await client.get<RawWorkload>(path));
  const before = await read();
  const { refusal } = before;
  if (refusal !== undefined) throw new SwitchbackError("input-invalid", `${workload.name}: ${refusal.text}`);
  const options = { fieldManager: "switchback-cli" };
  await client.mergePatch(path, restartPatch(stamp(Date.now()), before), options);
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const { unsettled } = await read();
    if (unsettled === undefined) return;
    if (performance.now() > deadline) {
      throw new SwitchbackError(
        "kube-unreachable",
        `${workload.name} is restarted, and not rolled out yet: ${unsettled}`,
      );
    }
    await pause(POLL_MS, new AbortController().signal);
  }
}
