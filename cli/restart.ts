import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { agree } from "./ask.ts";
import { leaderStatus } from "./leader-status.ts";
import { type Restarted, restartOne } from "./restart-one.ts";
import { withUnwatched } from "./unwatched-pods.ts";
import { parseWorkload, selectWorkloads } from "./workload-argument.ts";

interface RestartFlags extends ConnectFlags {
  readonly namespace: string;
  readonly yes?: boolean;
  /** Seconds. */
  readonly timeout: number;
}

/**
 * Restarts workloads whose pods lack the current names, with the caller's own permissions: for workloads that the
 * controller may not restart, or has stopped retrying. `what` is a namespace (all of its stale workloads) or one
 * workload, see `parseWorkload`. Restarts one at a time and waits for each rollout. If a workload cannot be
 * restarted, reports why and continues with the next; if a rollout fails, stops.
 * @returns the exit code: 1 if any workload was not restarted. Throws `declined` unless the answer is yes.
 */
export async function restart(what: string, flags: RestartFlags, context: CliContext): Promise<number> {
  const argument = parseWorkload(what);
  const client = await connect(connectOptionsFrom(context.env, flags));
  const print = context.stdout.line;
  try {
    const read = async () => {
      const status = await leaderStatus(client, flags.namespace, { in: argument.namespace });
      return (await withUnwatched(client, status, argument.namespace)).running;
    };
    const { unknown, workloads } = (await context.progress.during("reading the controller's status", read)) ?? {};
    if (unknown) throw new SwitchbackError("kube-unreachable", `the state of workloads is unknown: ${unknown}`);
    const selected = selectWorkloads(argument, workloads);
    for (const each of selected) print(`${labelOf(each)}: ${each.stale} of ${each.pods} pods stale`);
    if (selected.length === 0) {
      print("nothing to do: all pods have the current names");
      return 0;
    }
    if (!flags.yes) await agree("restart? [y/N] ");
    return await restartAll(
      client,
      selected,
      { listWorkloads: async () => (await read())?.workloads, ...flags },
      context,
    );
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
  { stdout, stderr, progress }: CliContext,
): Promise<number> {
  let exitCode = 0;
  const remaining = [...selected];
  for (let each = remaining.shift(); each !== undefined; each = remaining.shift()) {
    const label = labelOf(each);
    // The controller may have restarted it in the meantime.
    const now = (await listWorkloads())?.find((other) => labelOf(other) === label) ?? each;
    let missing = "restarting it";
    const report = (unsettled: string) => {
      missing = unsettled;
    };
    const begin = async () => (now.stale > 0 ? restartOne(client, now, timeout * 1000, report) : UP_TO_DATE);
    const { came, text } = await progress.during(() => `waiting for ${label}: ${missing}`, begin);
    const isGood = came === "restarted" || came === "already";
    (isGood ? stdout : stderr).line(`${label} ${text}`);
    if (!isGood) exitCode = 1;
    if (came === "failed" && remaining.length > 0) {
      stderr.line(`stopping; not restarted: ${remaining.map(labelOf).join(", ")}`);
      break;
    }
  }
  return exitCode;
}

const UP_TO_DATE: Restarted = { came: "already", text: "already has the current names" };

function labelOf({ namespace, kind, name }: WorkloadStatus): string {
  return `${kind} ${namespace}/${name}`;
}
