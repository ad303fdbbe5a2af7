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
 * Restarts workloads whose pods have not the current names, with the caller's own rights: what the install may not do, or has given
 * up. `what` is `NAMESPACE` (all of its stale workloads) or `NAMESPACE/WORKLOAD`. One after the other, each until it is rolled out. What
 * stands against one is said and the others are gone on with; a rollout that fails ends it. Gives the exit code: 1 if any was not restarted.
 */
export async function restart(what: string, flags: RestartFlags, context: CliContext): Promise<number> {
  const client = await connect(connectOptionsFrom(context.env, flags));
  const say = (line: string) => void context.stdout.write(`${line}\n`);
  try {
    const known = async () => (await leaderStatus(client, flags.namespace)).running?.workloads;
    const chosen = choose(what, await known());
    for (const each of chosen) say(`${labelOf(each)}: ${each.stale} of ${each.pods} pods stale`);
    if (chosen.length === 0) say("nothing to do: its pods have the current names");
    else if (flags.yes || (await ask("restart? [y/N] ")))
      return await restartAll(client, chosen, { known, ...flags }, context);
    else say("nothing was changed");
    return 0;
  } finally {
    client.close();
  }
}

interface Going {
  readonly known: () => Promise<readonly WorkloadStatus[] | undefined>;
  readonly timeout: number;
}

async function restartAll(
  client: KubeClient,
  chosen: readonly WorkloadStatus[],
  { known, timeout }: Going,
  { stdout, stderr }: CliContext,
): Promise<number> {
  let exitCode = 0;
  const left = [...chosen];
  for (let each = left.shift(); each !== undefined; each = left.shift()) {
    const label = labelOf(each);
    // The controller goes on meanwhile, and may have restarted it.
    const now = (await known())?.find((other) => labelOf(other) === label) ?? each;
    const { came, text } = now.stale > 0 ? await restartOne(client, now, timeout * 1000) : IN_STEP;
    const isGood = came === "restarted" || came === "already";
    (isGood ? stdout : stderr).write(`${label} ${text}\n`);
    if (!isGood) exitCode = 1;
    if (came === "failed" && left.length > 0) {
      stderr.write(`nothing more is restarted; left: ${left.map(labelOf).join(", ")}\n`);
      break;
    }
  }
  return exitCode;
}

const IN_STEP: Restarted = { came: "already", text: "has the current names by now" };

function labelOf({ namespace, kind, name }: WorkloadStatus): string {
  return `${kind} ${namespace}/${name}`;
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
