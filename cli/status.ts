import type { RolloutStatus, WorkloadStatus } from "../controller/rollout/rollout-status.ts";
import type { NameStatus } from "../controller/status.ts";
import { describeError } from "../errors/errors.ts";
import { connect, connectOptionsFrom } from "../kube/connect.ts";
import { pause } from "../kube/time.ts";
import type { CliContext } from "./context.ts";
import { type FullStatus, leaderStatus } from "./leader-status.ts";
import { table } from "./table.ts";

interface StatusFlags {
  readonly namespace: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly output: "text" | "json";
  readonly watch?: boolean;
}

const WATCH_MS = 2_000;

/** Prints names and workloads. Gives the exit code: 1 when a workload is stale and stays so until somebody does something. */
export async function status(flags: StatusFlags, { env, stdout, stderr }: CliContext): Promise<number> {
  const client = await connect(connectOptionsFrom(env, flags));
  const ask = (signal?: AbortSignal) => leaderStatus(client, flags.namespace, signal);
  const render = flags.output === "json" ? (full: FullStatus) => `${JSON.stringify(full, null, 2)}\n` : renderStatus;
  try {
    const first = await ask();
    const last = flags.watch ? await follow(first, { ask, render, stdout, stderr }) : first;
    if (!flags.watch) stdout.write(render(first));
    return last === undefined || isStuck(last) ? 1 : 0;
  } finally {
    client.close();
  }
}

interface Following extends Pick<CliContext, "stdout" | "stderr"> {
  readonly ask: (signal: AbortSignal) => Promise<FullStatus>;
  readonly render: (full: FullStatus) => string;
}

/**
 * Prints what has changed until Ctrl-C. What could be asked once is asked again however it answers then: the leader may be changing, or
 * the API server be away. Gives what was known last; undefined when that is nothing any more.
 */
async function follow(first: FullStatus, how: Following): Promise<FullStatus | undefined> {
  const { signal } = untilInterrupted();
  let seen: Seen = { full: first, text: how.render(first) };
  how.stdout.write(seen.text);
  for (;;) {
    await pause(WATCH_MS, signal);
    const now = await look(how, signal);
    if (signal.aborted) return seen.full;
    if (now.text !== seen.text) (now.full === undefined ? how.stderr : how.stdout).write(`\n${now.text}`);
    seen = now;
  }
}

interface Seen {
  readonly full: FullStatus | undefined;
  readonly text: string;
}

async function look({ ask, render }: Following, signal: AbortSignal): Promise<Seen> {
  try {
    const full = await ask(signal);
    return { full, text: render(full) };
  } catch (error) {
    return { full: undefined, text: `not known at the moment: ${describeError(error)}; asking again\n` };
  }
}

function untilInterrupted(): AbortController {
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => interrupted.abort());
  return interrupted;
}

export function isStuck({ running }: FullStatus): boolean {
  return (running?.workloads ?? []).some(({ standing, stale }) => standing === "stuck" && stale > 0);
}

/** The two tables, and a line about what goes on. */
export function renderStatus(full: FullStatus): string {
  return [
    `map ${full.revision ?? "not published yet"}, by ${full.identity}${full.leader ? "" : " (which does not lead: no workloads)"}\n`,
    ...full.warnings.map(({ code, text }) => `warning: ${code}: ${text}\n`),
    `\nNames\n${names(full.names)}`,
    ...(full.running === undefined ? [] : [`\nWorkloads that opted in\n${workloads(full.running)}`]),
  ].join("");
}

function names(all: readonly NameStatus[]): string {
  if (all.length === 0) return "  none is claimed\n";
  const rows = all.map(({ name, target, addresses, from, since, reason }) => [
    name,
    target === undefined ? "-" : `${target} ${addresses.join(" ")}`.trim(),
    `${from.kind} ${from.namespace}/${from.name}`,
    since,
    reason === undefined ? "" : `${reason.code}: ${reason.text}`,
  ]);
  rows.sort(([one = ""], [other = ""]) => (one < other ? -1 : 1));
  return table(["NAME", "TARGET", "FROM", "SINCE", "WHY NOT"], rows);
}

function workloads(running: RolloutStatus): string {
  if (running.unknown !== undefined) return `  not known: ${running.unknown}\n`;
  if (running.workloads.length === 0) return "  none\n";
  const head = ["WORKLOAD", "PODS", "STATE", "ON CHANGE", "LAST RESTART", "REASON"];
  return `${table(head, running.workloads.map(workloadRow))}${pace(running)}`;
}

/** `stale` alone may mean that it is about to be restarted: what is stuck says so. */
const STATES: Readonly<Record<WorkloadStatus["standing"], string>> = {
  "in-step": "in step",
  waiting: "stale",
  left: "left as it is",
  stuck: "cannot follow",
};

function workloadRow(workload: WorkloadStatus): string[] {
  const { namespace, kind, name, pods, stale, notInjected, standing, code, text, warnings } = workload;
  const reasons = standing === "in-step" ? [] : [`${code}: ${text}`];
  if (notInjected > 0) reasons.push(`${notInjected} without a trace of the webhook`);
  return [
    `${namespace}/${kind}/${name}`,
    `${pods - stale}/${pods}`,
    stale === 0 ? STATES["in-step"] : STATES[standing],
    workload.mode,
    workload.lastRestart ?? "-",
    [...reasons, ...warnings.map((warning) => `${warning.code}: ${warning.text}`)].join("; "),
  ];
}

function pace({ underWay, waiting, restartsLastHour, dryRun }: RolloutStatus): string {
  const now = underWay === undefined ? "none" : underWay;
  const dry = dryRun ? " (a dry run: nothing is restarted)" : "";
  return `\nrestarting now: ${now}; waiting: ${waiting}; restarted in the last hour: ${restartsLastHour}${dry}\n`;
}
