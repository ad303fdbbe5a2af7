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

/** Prints names and workloads. @returns the exit code: 1 if a workload is stale and stays so until somebody acts. */
export async function status(flags: StatusFlags, { env, stdout, stderr }: CliContext): Promise<number> {
  const client = await connect(connectOptionsFrom(env, flags));
  const read = (signal?: AbortSignal) => leaderStatus(client, flags.namespace, signal);
  const render = flags.output === "json" ? (full: FullStatus) => `${JSON.stringify(full, null, 2)}\n` : renderStatus;
  try {
    const first = await read();
    const last = flags.watch ? await watchStatus(first, { read, render, stdout, stderr }) : first;
    if (!flags.watch) stdout.write(render(first));
    return last === undefined || isStuck(last) ? 1 : 0;
  } finally {
    client.close();
  }
}

interface WatchOptions extends Pick<CliContext, "stdout" | "stderr"> {
  readonly read: (signal: AbortSignal) => Promise<FullStatus>;
  readonly render: (full: FullStatus) => string;
}

/**
 * Prints the status whenever it changes, until Ctrl-C. After the first successful read, every failure is retried: the leader may be
 * changing, or the API server be unavailable. @returns the last status; undefined if the last read failed.
 */
async function watchStatus(first: FullStatus, options: WatchOptions): Promise<FullStatus | undefined> {
  const { signal } = untilInterrupted();
  let last: Poll = { full: first, text: options.render(first) };
  options.stdout.write(last.text);
  for (;;) {
    await pause(WATCH_MS, signal);
    const now = await poll(options, signal);
    if (signal.aborted) return last.full;
    if (now.text !== last.text) (now.full === undefined ? options.stderr : options.stdout).write(`\n${now.text}`);
    last = now;
  }
}

interface Poll {
  readonly full: FullStatus | undefined;
  readonly text: string;
}

async function poll({ read, render }: WatchOptions, signal: AbortSignal): Promise<Poll> {
  try {
    const full = await read(signal);
    return { full, text: render(full) };
  } catch (error) {
    return { full: undefined, text: `status unknown: ${describeError(error)}; retrying\n` };
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

/** The tables of names and workloads, and a summary line of the rollout. */
export function renderStatus(full: FullStatus): string {
  return [
    `map ${full.revision ?? "not published yet"}, from ${full.identity}${full.leader ? "" : " (not the leader: no workloads)"}\n`,
    ...full.warnings.map(({ code, text }) => `warning: ${code}: ${text}\n`),
    `\nNames\n${names(full.names)}`,
    ...(full.running === undefined ? [] : [`\nOpted-in workloads\n${workloads(full.running)}`]),
  ].join("");
}

function names(all: readonly NameStatus[]): string {
  if (all.length === 0) return "  none\n";
  const rows = all.map(({ name, target, addresses, from, since, reason }) => [
    name,
    target === undefined ? "-" : `${target} ${addresses.join(" ")}`.trim(),
    `${from.kind} ${from.namespace}/${from.name}`,
    since,
    reason === undefined ? "" : `${reason.code}: ${reason.text}`,
  ]);
  rows.sort(([one = ""], [other = ""]) => (one < other ? -1 : 1));
  return table(["NAME", "TARGET", "FROM", "SINCE", "REASON"], rows);
}

function workloads(running: RolloutStatus): string {
  if (running.unknown !== undefined) return `  unknown: ${running.unknown}\n`;
  if (running.workloads.length === 0) return "  none\n";
  const head = ["WORKLOAD", "PODS", "STATE", "ON CHANGE", "LAST RESTART", "REASON"];
  return `${table(head, running.workloads.map(workloadRow))}${rolloutSummary(running)}`;
}

/** `stale` alone may mean that a restart is due: a workload that cannot be restarted has a state of its own. */
const STATES: Readonly<Record<WorkloadStatus["standing"], string>> = {
  "in-step": "up to date",
  waiting: "stale",
  left: "stale (not restarted)",
  stuck: "stuck",
};

function workloadRow(workload: WorkloadStatus): string[] {
  const { namespace, kind, name, pods, stale, notInjected, standing, code, text, warnings } = workload;
  const reasons = standing === "in-step" ? [] : [`${code}: ${text}`];
  if (notInjected > 0) reasons.push(`${notInjected} not injected`);
  return [
    `${namespace}/${kind}/${name}`,
    `${pods - stale}/${pods}`,
    stale === 0 ? STATES["in-step"] : STATES[standing],
    workload.mode,
    workload.lastRestart ?? "-",
    [...reasons, ...warnings.map((warning) => `${warning.code}: ${warning.text}`)].join("; "),
  ];
}

function rolloutSummary({ underWay, waiting, restartsLastHour, dryRun }: RolloutStatus): string {
  const now = underWay === undefined ? "none" : underWay;
  const dry = dryRun ? " (dry run: nothing is restarted)" : "";
  return `\nrestarting now: ${now}; waiting: ${waiting}; restarts in the last hour: ${restartsLastHour}${dry}\n`;
}
