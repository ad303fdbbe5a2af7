import type { WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus, NameStatus } from "#controller/status.ts";
import type { Reason } from "#hostmap/types.ts";
import { askedTexts } from "#lib/documents/header-answers.ts";
import { printable } from "#lib/errors/printable.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { isStuck, stateText } from "#lib/workloads/workload-words.ts";
import { type Row, table } from "./table.ts";

/** The selected parts of a status, in the order in which they are shown. A part that was not requested is undefined. */
export interface Selected {
  /** Without a filter, all targets; else none, because no filter is about targets. */
  readonly targets: FullStatus["targets"];
  readonly names: readonly NameStatus[] | undefined;
  readonly workloads: readonly WorkloadStatus[] | undefined;
}

/** The tables of asked targets, names and workloads, and a summary of the rollout. `more` are lines for the head. */
export function statusText(full: FullStatus, selected: Selected, more: readonly string[]): string {
  const { running } = full;
  const { names, workloads } = selected;
  const asked = selected.targets.filter(({ ports }) => ports.some((port) => port.asked));
  const blocks = [[...head(full), ...more].map((line) => `${printable(line)}\n`).join("")];
  if (asked.length > 0) {
    const rows = asked.map(({ name, upstream, ports }) => ({ cells: [name, upstream], notes: askedTexts(ports) }));
    blocks.push(section(`Asked for a PROXY header: ${asked.length}`, ["TARGET", "INGRESS CONTROLLER"], rows));
  }
  if (names !== undefined) {
    const refused = names.filter(({ reason }) => reason !== undefined).length;
    const title = `Names: ${counts(names.length, full.names.length, refused, "refused")}`;
    blocks.push(section(title, ["NAME", "TARGET", "FROM"], names.map(nameRow)));
  }
  if (workloads !== undefined && running?.unknown !== undefined) {
    blocks.push(`Opted-in workloads\n  unknown: ${printable(running.unknown)}\n`);
  } else if (workloads !== undefined && running !== undefined) {
    const shown = workloads.length + running.omitted;
    const stuck = workloads.filter(isStuck).length;
    const title = `Opted-in workloads: ${counts(shown, running.counts.workloads, stuck, "stuck")}`;
    blocks.push(section(title, ["WORKLOAD", "PODS", "STATE", "ON CHANGE"], workloads.map(workloadRow)));
    blocks.push(`restarting now: ${running.underWay ?? "none"}; waiting: ${running.waiting}\n`);
  }
  return blocks.join("\n");
}

/** Which controller answers with which map, and its warnings. */
function head({ revision, identity, leader, warnings }: FullStatus): string[] {
  // Only a file has the status of no leader.
  const map = leader || revision !== undefined ? [`map ${revision ?? "not published yet"}, from ${identity}`] : [];
  return [...map, ...warnings.map((warning) => `warning: ${reasonText(warning)}`)];
}

/** `3 of 120, 1 refused`. */
function counts(shown: number, all: number, bad: number, isBad: string): string {
  return `${shown}${shown === all ? "" : ` of ${all}`}${bad === 0 ? "" : `, ${bad} ${isBad}`}`;
}

function section(title: string, head: readonly string[], rows: readonly Row[]): string {
  return `${title}\n${rows.length === 0 ? "  none\n" : table(head, rows)}`;
}

function nameRow({ name, target, from, reason, warning }: NameStatus): Row {
  return {
    cells: [name, target ?? "-", `${from.kind} ${from.namespace}/${from.name}`],
    notes: [...(reason ? [reasonText(reason)] : []), ...(warning ? [`warning: ${reasonText(warning)}`] : [])],
  };
}

function workloadRow(workload: WorkloadStatus): Row {
  const { pods, stale, notInjected, standing, mode, warnings } = workload;
  return {
    cells: [workloadKey(workload), `${pods - stale}/${pods}`, stateText(workload), mode],
    notes: [
      ...(standing === "in-step" ? [] : [reasonText(workload)]),
      ...(notInjected > 0 ? [`${notInjected} not injected`] : []),
      ...warnings.map(reasonText),
    ],
  };
}

function reasonText({ code, text }: Reason): string {
  return `${code}: ${text}`;
}
