import type { RolloutStatus, WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus, NameStatus } from "#controller/status.ts";
import { compareNames } from "#hostmap/hostnames.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { isStuck } from "#lib/workloads/workload-words.ts";

/**
 * Selects a part of the status. `name` and `refused` filter names, `stuck` filters workloads, `namespace` filters both.
 */
export interface StatusFilter {
  /** Only objects of this namespace. */
  readonly namespace?: string | undefined;
  /** Pattern for the hostname; `*` matches any number of characters. */
  readonly name?: string | undefined;
  /** Only names that no pod gets. */
  readonly refused?: boolean | undefined;
  /** Only workloads that stay stale until somebody acts. */
  readonly stuck?: boolean | undefined;
}

/**
 * The selected parts. A part that was not requested is undefined. Both lists are in the order in which they are
 * shown.
 */
export interface Selected {
  /** Without a filter, all targets; else none, because no filter is about targets. */
  readonly targets: FullStatus["targets"];
  readonly names: readonly NameStatus[] | undefined;
  readonly workloads: readonly WorkloadStatus[] | undefined;
}

/**
 * Selects names and workloads. A filter for one of the two leaves out the other, unless that has a filter too.
 * Problems come first: names that no pod gets, and workloads that are stuck.
 */
export function selectStatus({ targets, names, running }: FullStatus, filter: StatusFilter): Selected {
  const ofNames = filter.name !== undefined || filter.refused === true;
  const ofWorkloads = filter.stuck === true;
  const isHere = ({ namespace }: { readonly namespace: string }) =>
    filter.namespace === undefined || namespace === filter.namespace;
  const matches = filter.name === undefined ? () => true : glob(filter.name);
  return {
    targets: ofNames || ofWorkloads || filter.namespace !== undefined ? [] : targets,
    names:
      ofWorkloads && !ofNames
        ? undefined
        : names
            .filter((each) => isHere(each.from) && matches(each.name) && (!filter.refused || isRefused(each)))
            .sort((one, other) => rankOfName(one) - rankOfName(other) || compareNames(one.name, other.name)),
    workloads:
      ofNames && !ofWorkloads
        ? undefined
        : running?.workloads
            .filter((each) => isHere(each) && (!filter.stuck || isStuck(each)))
            .sort((one, other) => rankOf(one) - rankOf(other) || compareNames(workloadKey(one), workloadKey(other))),
  };
}

/**
 * The controller's document with the selected entries of its lists. A list that was not requested is absent, not
 * empty.
 */
export function selectedDocument(full: FullStatus, { names, workloads }: Omit<Selected, "targets">): object {
  const { names: _names, running, ...rest } = full;
  const withWorkloads = (all: RolloutStatus) => ({ ...withoutWorkloads(all), ...(workloads && { workloads }) });
  return { ...rest, ...(names && { names }), ...(running && { running: withWorkloads(running) }) };
}

function withoutWorkloads({ workloads: _workloads, ...rest }: RolloutStatus): Omit<RolloutStatus, "workloads"> {
  return rest;
}

/** Whether no pod gets the name: it is not in the map, or a hosts file cannot hold it. */
export function isRefused({ reason }: NameStatus): boolean {
  return reason !== undefined;
}

function rankOfName(name: NameStatus): number {
  if (isRefused(name)) return 0;
  return name.warning === undefined ? 2 : 1;
}

function rankOf(workload: WorkloadStatus): number {
  if (isStuck(workload)) return 0;
  return workload.stale > 0 ? 1 : 2;
}

/** Matches whole hostnames, ignoring case. Only `*` is special. */
function glob(pattern: string): (name: string) => boolean {
  const parts = pattern.split(/\*+/).map((part) => part.replace(/[^\w-]/g, "\\$&"));
  const whole = new RegExp(`^${parts.join(".*")}$`, "i");
  return (name) => whole.test(name);
}
