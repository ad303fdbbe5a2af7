import type { WorkloadStatus } from "../controller/rollout/rollout-status.ts";
import { SwitchbackError } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { connect, connectOptionsFrom } from "../kube/connect.ts";
import { isWorkloadKind } from "../workloads/workload-kinds.ts";
import { ask } from "./ask.ts";
import type { CliContext } from "./context.ts";
import { leaderStatus } from "./leader-status.ts";
import { type Restarted, restartOne } from "./restart-one.ts";

interface RestartFlags {
  readonly namespace: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly yes?: boolean;
  /** Seconds. */
  readonly timeout: number;
}

/**
 * Restarts workloads whose pods lack the current names, with the caller's own permissions: for workloads that the controller may not
 * restart, or has stopped retrying. `what` is `NAMESPACE` (all of its stale workloads) or `NAMESPACE/WORKLOAD`. Restarts one at a time
 * and waits for each rollout. If a workload cannot be restarted, reports why and continues with the next; if a rollout fails, stops.
 * @returns the exit code: 1 if any workload was not restarted.
 */
export async function restart(what: string, flags: RestartFlags, context: CliContext): Promise<number> {
  const client = await connect(connectOptionsFrom(context.env, flags));
  const print = (line: string) => void context.stdout.write(`${line}\n`);
  try {
    const listWorkloads = async () => (await leaderStatus(client, flags.namespace)).running?.workloads;
    const selected = selectWorkloads(what, await listWorkloads());
    for (const each of selected) print(`${labelOf(each)}: ${each.stale} of ${each.pods} pods stale`);
    if (selected.length === 0) print("nothing to do: all pods have the current names");
    else if (flags.yes || (await ask("restart? [y/N] ")))
      return await restartAll(client, selected, { listWorkloads, ...flags }, context);
    else print("nothing changed");
    return 0;
  } finally {
    client.close();
  }
}

interface RestartOptions {
  readonly listWorkloads: () => Promise<readonly WorkloadStatus[] | undefined>;
  /** Seconds, for each rollout. */
  readonly timeout: number;
}

async function restartAll(
  client: KubeClient,
  selected: readonly WorkloadStatus[],
  { listWorkloads, timeout }: RestartOptions,
  { stdout, stderr }: CliContext,
): Promise<number> {
  let exitCode = 0;
  const remaining = [...selected];
  for (let each = remaining.shift(); each !== undefined; each = remaining.shift()) {
    const label = labelOf(each);
    // The controller may have restarted it in the meantime.
    const now = (await listWorkloads())?.find((other) => labelOf(other) === label) ?? each;
    const { came, text } = now.stale > 0 ? await restartOne(client, now, timeout * 1000) : UP_TO_DATE;
    const isGood = came === "restarted" || came === "already";
    (isGood ? stdout : stderr).write(`${label} ${text}\n`);
    if (!isGood) exitCode = 1;
    if (came === "failed" && remaining.length > 0) {
      stderr.write(`stopping; not restarted: ${remaining.map(labelOf).join(", ")}\n`);
      break;
    }
  }
  return exitCode;
}

const UP_TO_DATE: Restarted = { came: "already", text: "already has the current names" };

function labelOf({ namespace, kind, name }: WorkloadStatus): string {
  return `${kind} ${namespace}/${name}`;
}

/** The stale workloads that `what` names. Throws `input-invalid` if none is known by that name, or it cannot be restarted. */
export function selectWorkloads(what: string, all: readonly WorkloadStatus[] | undefined): WorkloadStatus[] {
  const [namespace = "", name, ...more] = what.split("/");
  if (namespace === "" || name === "" || more.length > 0) {
    throw new SwitchbackError("input-invalid", `${what}: expected NAMESPACE or NAMESPACE/WORKLOAD`);
  }
  if (all === undefined)
    throw new SwitchbackError("kube-unreachable", "no controller is the leader at the moment: try again");
  const named = all.filter((each) => each.namespace === namespace && (name === undefined || each.name === name));
  if (named.length === 0) {
    const message = `${what}: no opted-in pods found; \`switchback status\` lists the workloads that have some`;
    throw new SwitchbackError("input-invalid", message);
  }
  const [other] = named.filter(({ kind }) => !isWorkloadKind(kind));
  if (name !== undefined && other !== undefined) {
    throw new SwitchbackError("input-invalid", `${what} is a ${other.kind}: delete its pods, or recreate it`);
  }
  return named.filter(({ kind, stale }) => stale > 0 && isWorkloadKind(kind));
}
