import type { RolloutStatus, WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus, NameStatus } from "#controller/status.ts";
import type { Reason } from "#hostmap/types.ts";
import { askedTexts } from "#lib/documents/header-answers.ts";
import { printable } from "#lib/errors/printable.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { isStuck, stateText } from "#lib/workloads/workload-words.ts";
import type { Screen } from "./formats.ts";
import { wrap } from "./layout.ts";
import { isRefused, type Selected } from "./status-filter.ts";
import { type Row, tableWithNotes } from "./table.ts";

interface StatusLayout {
  /** Whether to show every column, and to shorten and wrap nothing. */
  readonly wide: boolean;
  /** Maximum length of a line, unless `wide`; undefined: no limit. */
  readonly columns: number | undefined;
  /** Maximum number of rows in each table. */
  readonly maxRows: number;
}

/** The tables of asked targets, names and workloads, and a summary of the rollout. `more` are lines for the head. */
export function statusText(
  full: FullStatus,
  selected: Selected,
  layout: StatusLayout,
  more: readonly string[] = [],
): Screen {
  const columns = layout.wide ? undefined : layout.columns;
  const lines = (text: string) => wrap(printable(text), columns, 2).map((line) => `${line}\n`);
  const asked = selected.targets.filter(({ ports }) => ports.some((port) => port.asked));
  const targets = asked.length === 0 ? undefined : section("targets", asked, layout, TARGETS);
  const names = selected.names && section("names", selected.names, layout, NAMES);
  const { running } = full;
  const workloads = running?.unknown === undefined ? selected.workloads : undefined;
  const rows = workloads && section("workloads", workloads, layout, WORKLOADS, running?.omitted);
  const text = [
    ...[...head(full), ...more].flatMap(lines),
    ...(targets === undefined ? [] : [`\nAsked for a PROXY header: ${asked.length}\n`, targets.text]),
    ...(names === undefined
      ? []
      : [`\nNames${counts(full.names.length, selected.names ?? [], isRefused, "refused")}`, names.text]),
    ...(running?.unknown === undefined || selected.workloads === undefined
      ? []
      : ["\nOpted-in workloads\n", ...lines(`  unknown: ${running.unknown}`)]),
    ...(rows === undefined
      ? []
      : [
          `\nOpted-in workloads${counts(totalOf(running), workloads ?? [], isStuck, "stuck", running?.omitted)}`,
          rows.text,
        ]),
    ...(running === undefined || rows === undefined ? [] : ["\n", ...lines(rolloutSummary(running))]),
  ].join("");
  return {
    text,
    notes: notes(
      [targets, names, rows].filter((each) => each !== undefined),
      layout,
    ),
  };
}

/** The number of workloads. A controller of an earlier version does not count them, and lists all of them. */
function totalOf(running: RolloutStatus | undefined): number {
  return running?.counts?.workloads ?? running?.workloads.length ?? 0;
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

interface Section {
  readonly text: string;
  readonly shortened: boolean;
  /** Number and kind of the rows that were left out, such as `9900 names`. Empty if there are none. */
  readonly omitted: string;
}

/** Renders a table. `left` is the number of rows that were not read. */
function section<T>(what: string, all: readonly T[], layout: StatusLayout, { head, row }: Kind<T>, left = 0): Section {
  if (all.length === 0) return { text: "  none\n", shortened: false, omitted: "" };
  const shown = all.slice(0, layout.maxRows).map((each) => row(each, layout.wide));
  const omitted = all.length - shown.length + left;
  return {
    ...tableWithNotes(layout.wide ? head.wide : head.text, shown, layout.wide ? undefined : layout.columns),
    omitted: omitted === 0 ? "" : `${omitted} ${what}`,
  };
}

function notes(sections: readonly Section[], { columns }: StatusLayout): string[] {
  const omitted = sections.map((each) => each.omitted).filter((each) => each !== "");
  return [
    ...(omitted.length === 0
      ? []
      : [`not shown: ${omitted.join(" and ")}; see --all, --in, --name, --refused and --stuck`]),
    ...(sections.some(({ shortened }) => shortened)
      ? [`some values are shortened (...) to fit ${columns} columns; -o wide shows them whole`]
      : []),
  ];
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
