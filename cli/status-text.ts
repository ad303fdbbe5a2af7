import type { RolloutStatus, WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus, NameStatus } from "#controller/status.ts";
import type { Reason } from "#hostmap/types.ts";
import { askedTexts } from "#lib/documents/header-answers.ts";
import { printable } from "#lib/errors/printable.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { isStuck, stateText } from "#lib/workloads/workload-words.ts";
import { isRefused, type Selected } from "./status-filter.ts";
import { type Row, table } from "./table.ts";

/**
 * The tables of asked targets, names and workloads, and a summary of the rollout. `wide`: with every column. `more` are
 * lines for the head.
 */
export function statusText(full: FullStatus, selected: Selected, wide: boolean, more: readonly string[] = []): string {
  const { running } = full;
  const { names, workloads } = selected;
  const asked = selected.targets.filter(({ ports }) => ports.some((port) => port.asked));
  const blocks = [[...head(full), ...more].map((line) => `${printable(line)}\n`).join("")];
  if (asked.length > 0) blocks.push(`Asked for a PROXY header: ${asked.length}\n${section(asked, wide, TARGETS)}`);
  if (names !== undefined) {
    blocks.push(`Names${counts(full.names.length, names, isRefused, "refused")}${section(names, wide, NAMES)}`);
  }
  if (workloads !== undefined && running?.unknown !== undefined) {
    blocks.push(`Opted-in workloads\n  unknown: ${printable(running.unknown)}\n`);
  } else if (workloads !== undefined && running !== undefined) {
    const title = counts(totalOf(running), workloads, isStuck, "stuck", running.omitted);
    blocks.push(`Opted-in workloads${title}${section(workloads, wide, WORKLOADS)}`, `${rolloutSummary(running)}\n`);
  }
  return blocks.join("\n");
}

/** The number of workloads. A controller of an earlier version does not count them, and lists all of them. */
function totalOf(running: RolloutStatus): number {
  return running.counts?.workloads ?? running.workloads.length;
}

/** Which controller answers with which map, and its warnings. */
function head({ revision, identity, leader, warnings }: FullStatus): string[] {
  const follower = leader ? "" : " (not the leader: no workloads)";
  return [
    `map ${revision ?? "not published yet"}, from ${identity}${follower}`,
    ...warnings.map((warning) => `warning: ${reasonText(warning)}`),
  ];
}

/** `: 3 of 120, 1 refused`. */
function counts<T>(all: number, selected: readonly T[], isBad: (each: T) => boolean, bad: string, omitted = 0): string {
  const length = selected.length + omitted;
  const of = length === all ? "" : ` of ${all}`;
  const count = selected.filter(isBad).length;
  return `: ${length}${of}${count === 0 ? "" : `, ${count} ${bad}`}\n`;
}

interface Kind<T> {
  readonly head: { readonly text: readonly string[]; readonly wide: readonly string[] };
  readonly row: (each: T, wide: boolean) => Row;
}

function section<T>(all: readonly T[], wide: boolean, { head, row }: Kind<T>): string {
  if (all.length === 0) return "  none\n";
  return table(
    wide ? head.wide : head.text,
    all.map((each) => row(each, wide)),
  );
}

/** Targets that were asked. Each port has its own line, or in `wide` its part of a column. */
const TARGETS: Kind<FullStatus["targets"][number]> = {
  head: { text: ["TARGET", "INGRESS CONTROLLER"], wide: ["TARGET", "INGRESS CONTROLLER", "SEEN"] },
  row: ({ name, upstream, ports }, wide) => {
    const seen = askedTexts(ports);
    return wide ? { cells: [name, upstream, seen.join("; ")] } : { cells: [name, upstream], notes: seen };
  },
};

const NAMES: Kind<NameStatus> = {
  head: { text: ["NAME", "TARGET", "FROM"], wide: ["NAME", "TARGET", "FROM", "SINCE", "REASON"] },
  row: (each, wide) => {
    const { name, target, addresses, from, since, reason, warning } = each;
    const painted = isRefused(each) || warning !== undefined ? ({ column: 0, style: "warning" } as const) : undefined;
    const object = `${from.kind} ${from.namespace}/${from.name}`;
    const reasons = [...(reason ? [reasonText(reason)] : []), ...(warning ? [`warning: ${reasonText(warning)}`] : [])];
    if (!wide) return { cells: [name, target ?? "-", object], notes: reasons, painted };
    const mapped = target === undefined ? "-" : `${target} ${addresses.join(" ")}`.trim();
    return { cells: [name, mapped, object, since, reasons.join("; ")], painted };
  },
};

const WORKLOADS: Kind<WorkloadStatus> = {
  head: {
    text: ["WORKLOAD", "PODS", "STATE", "ON CHANGE"],
    wide: ["WORKLOAD", "PODS", "STATE", "ON CHANGE", "LAST RESTART", "REASON"],
  },
  row: (workload, wide) => {
    const { pods, stale, notInjected, standing, warnings } = workload;
    const cells = [workloadKey(workload), `${pods - stale}/${pods}`, stateText(workload), workload.mode];
    const reasons = [
      ...(standing === "in-step" ? [] : [reasonText(workload)]),
      ...(notInjected > 0 ? [`${notInjected} not injected`] : []),
      ...warnings.map(reasonText),
    ];
    const painted = stale === 0 ? undefined : ({ column: 2, style: isStuck(workload) ? "bad" : "warning" } as const);
    if (!wide) return { cells, notes: reasons, painted };
    return { cells: [...cells, workload.lastRestart ?? "-", reasons.join("; ")], painted };
  },
};

function reasonText({ code, text }: Reason): string {
  return `${code}: ${text}`;
}

function rolloutSummary({ underWay, waiting }: RolloutStatus): string {
  return `restarting now: ${underWay ?? "none"}; waiting: ${waiting}`;
}
