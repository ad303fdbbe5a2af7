import type { Command } from "@commander-js/extra-typings";
import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { waitForRestart } from "#lib/workloads/restart.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "#lib/workloads/workload-state.ts";
import { agree } from "./ask.ts";
import { type Definition, durationSeconds, objectsOptions } from "./command.ts";
import { installedIn, leaderStatus } from "./leader-status.ts";
import { tryRestart } from "./try-restart.ts";
import { withUnwatched } from "./unwatched-pods.ts";
import { parseWorkload, selectWorkloads } from "./workload-argument.ts";

/** Defines `switchback restart`. */
export function define(command: Command, { context, exit }: Definition): void {
  objectsOptions(command)
    .argument("<namespace[/[kind/]workload]>", "a namespace, or one workload in it, such as shop/deployment/web")
    .option("--timeout <time>", "time limit for each rollout: seconds, or 90s, 5m, 1h", durationSeconds, 300)
    .option("--yes", "skip the confirmation prompt")
    .action((what, flags) => exit(restart(what, flags, context)));
}

interface RestartFlags extends ConnectFlags {
  readonly switchbackNamespace?: string | undefined;
  readonly yes?: boolean | undefined;
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
    const since = Date.now();
    const read = async () => {
      const ours = await installedIn(client, flags.switchbackNamespace);
      const status = await leaderStatus(client, ours, { in: argument.namespace });
      return (await withUnwatched(client, status, argument.namespace)).running;
    };
    const running = await context.progress.during("reading the controller's status", read);
    const { unknown, workloads = [] } = running ?? { unknown: "no controller is the leader at the moment" };
    if (unknown) throw new SwitchbackError("kube-unreachable", `the state of workloads is unknown: ${unknown}`);
    const selected = selectWorkloads(argument, workloads);
    for (const each of selected) print(`${labelOf(each)}: ${each.stale} of ${each.pods} pods stale`);
    if (selected.length === 0) {
      print("nothing to do: all pods have the current names");
      return 0;
    }
    if (!flags.yes) await agree("restart? [y/N] ");
    return await restartAll(client, selected, { since, timeoutMs: flags.timeout * 1000 }, context);
  } finally {
    client.close();
  }
}

const POLL_MS = 500;
const UNDER_WAY = { code: "under-way", text: "it is being restarted already" };

interface RestartOptions {
  /** When the status was read, milliseconds since 1970. */
  readonly since: number;
  /** For each rollout. */
  readonly timeoutMs: number;
}

async function restartAll(
  client: KubeClient,
  selected: readonly WorkloadStatus[],
  { since, timeoutMs }: RestartOptions,
  { stdout, stderr, progress }: CliContext,
): Promise<number> {
  let exitCode = 0;
  /** Whether somebody has restarted it after the status was read, or before, and it is not rolled out yet. */
  const isUnderWay = ({ restartedAt = "", unsettled, failed, refusal }: WorkloadState) => {
    const at = Date.parse(restartedAt);
    const mayFinish = unsettled !== undefined && !failed && at > Date.now() - timeoutMs;
    return refusal === undefined && (at > since || mayFinish);
  };
  const refuse = (state: WorkloadState) => (isUnderWay(state) ? UNDER_WAY : undefined);
  for (const [index, each] of selected.entries()) {
    const label = labelOf(each);
    const reason = await tryRestart(client, each, { fieldManager: "switchback-cli", refuse });
    if (reason !== undefined && reason !== UNDER_WAY) {
      stderr.line(`${label} was not restarted: ${reason.text}`);
      exitCode = 1;
      continue;
    }
    const missing = await progress.during(`waiting for ${label}`, () => rolledOut(client, each, timeoutMs));
    if (missing !== undefined) {
      stderr.line(`${label} was restarted, but the rollout did not finish: ${missing}`);
      const others = selected.slice(index + 1).map(labelOf);
      if (others.length > 0) stderr.line(`stopping; not restarted: ${others.join(", ")}`);
      return 1;
    }
    stdout.line(`${label} ${reason === undefined ? "is restarted" : "was being restarted already"}`);
  }
  return exitCode;
}

/** Waits for a rollout. Returns what is still missing after the time, or when the rollout has failed. */
async function rolledOut(client: KubeClient, workload: WorkloadStatus, timeoutMs: number): Promise<string | undefined> {
  const { kind } = workload;
  const path = workloadPath(workload.namespace, kind, workload.name);
  const look = async () => {
    const { unsettled, failed } = workloadState(kind, await client.get<RawWorkload>(path));
    return { missing: unsettled, hasFailed: failed };
  };
  return await waitForRestart(look, { now: () => performance.now(), pollMs: POLL_MS, timeoutMs, report() {} });
}

function labelOf({ namespace, kind, name }: WorkloadStatus): string {
  return `${kind} ${namespace}/${name}`;
}
