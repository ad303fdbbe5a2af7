import type { Command } from "@commander-js/extra-typings";
import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { CliContext } from "#lib/process/context.ts";
import { waitForRestart } from "#lib/workloads/restart.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type RawWorkload, type WorkloadState, workloadState } from "#lib/workloads/workload-state.ts";
import { agree } from "./ask.ts";
import { type Definition, durationSeconds, type FlagsOf, objectsOptions } from "./command.ts";
import { leaderStatus } from "./leader-status.ts";
import { tryRestart } from "./try-restart.ts";
import { withClient } from "./with-client.ts";
import { parseWorkload, selectWorkloads } from "./workload-argument.ts";

function withOptions(command: Command) {
  return objectsOptions(command)
    .option("--timeout <time>", "time limit for each rollout: seconds, or 90s, 5m, 1h", durationSeconds, 300)
    .option("--yes", "skip the confirmation prompt");
}

/** Defines `switchback restart`. */
export function define(command: Command, { context, exit }: Definition): void {
  withOptions(command)
    .argument("<namespace[/[kind/]workload]>", "a namespace, or one workload in it, such as shop/deployment/web")
    .action((what, flags) => exit(restart(what, flags, context)));
}

/**
 * Restarts workloads whose pods lack the current names, with the caller's own permissions: for workloads that the
 * controller may not restart, or has stopped retrying. `what` is a namespace (all of its stale workloads) or one
 * workload, see `parseWorkload`. Restarts one at a time and waits for each rollout. If a workload cannot be
 * restarted, reports why and continues with the next; if a rollout fails, stops.
 * @returns the exit code: 1 if any workload was not restarted. Throws `declined` unless the answer is yes.
 */
export async function restart(what: string, flags: FlagsOf<typeof withOptions>, context: CliContext): Promise<number> {
  const argument = parseWorkload(what);
  const { progress, stdout } = context;
  return await withClient("restart", flags, context, async (client) => {
    const since = Date.now();
    const read = () => leaderStatus(client, { installedIn: flags.switchbackNamespace, of: argument.namespace });
    const { full } = await progress.during("reading the controller's status", read);
    const { unknown, workloads = [] } = full.running ?? { unknown: "no controller is the leader at the moment" };
    if (unknown) throw new SwitchbackError("kube-unreachable", `the state of workloads is unknown: ${unknown}`);
    const selected = selectWorkloads(argument, workloads);
    for (const each of selected) stdout.line(`${workloadKey(each)}: ${each.stale} of ${each.pods} pods stale`);
    if (selected.length === 0) {
      stdout.line("nothing to do: all pods have the current names");
      return 0;
    }
    if (!flags.yes) await agree("restart? [y/N] ");
    return await restartAll(client, selected, { since, timeoutMs: flags.timeout * 1000 }, context);
  });
}

const UNDER_WAY = "it is being restarted already";

/** `since`: when the status was read, milliseconds since 1970. `timeoutMs`: for each rollout. */
async function restartAll(
  client: KubeClient,
  selected: readonly WorkloadStatus[],
  { since, timeoutMs }: { readonly since: number; readonly timeoutMs: number },
  { stdout, stderr, progress }: CliContext,
): Promise<number> {
  let exitCode = 0;
  /** Whether somebody has restarted it after the status was read, or before, and it is not rolled out yet. */
  const refuse = ({ restartedAt = "", unsettled, failed, refusal }: WorkloadState) => {
    const at = Date.parse(restartedAt);
    const mayFinish = unsettled !== undefined && !failed && at > Date.now() - timeoutMs;
    return refusal === undefined && (at > since || mayFinish) ? UNDER_WAY : undefined;
  };
  for (const [index, each] of selected.entries()) {
    const label = workloadKey(each);
    const refusal = await tryRestart(client, each, { fieldManager: "switchback-cli", refuse });
    if (refusal !== undefined && refusal.text !== UNDER_WAY) {
      stderr.line(`${label} was not restarted: ${refusal.text}`);
      exitCode = 1;
      continue;
    }
    const look = async () => {
      const path = workloadPath(each.namespace, each.kind, each.name);
      const { unsettled, failed } = workloadState(each.kind, await client.get<RawWorkload>(path));
      return { missing: unsettled, hasFailed: failed };
    };
    const missing = await progress.during(`waiting for ${label}`, () => waitForRestart(look, { timeoutMs }));
    if (missing !== undefined) {
      stderr.line(`${label} was restarted, but the rollout did not finish: ${missing}`);
      const others = selected.slice(index + 1).map(workloadKey);
      if (others.length > 0) stderr.line(`stopping; not restarted: ${others.join(", ")}`);
      return 1;
    }
    stdout.line(`${label} ${refusal === undefined ? "is restarted" : "was being restarted already"}`);
  }
  return exitCode;
}
