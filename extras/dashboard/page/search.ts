import type { NameRow, WorkloadRow } from "./state.ts";

/** Which names a list shows. */
export type NameFilter = "all" | "refused" | "warned";

/** Which workloads a list shows: all, or those with pods that lack current names. */
type WorkloadFilter = "all" | "stale" | "stuck" | "waiting";

/** The part of a name's row that a list is sorted by. */
export type NameColumn = "name" | "from" | "target" | "state";

/** How a list is sorted. */
export interface Order<Column> {
  readonly column: Column;
  readonly descending: boolean;
}

/** Rows whose text contains each word of the query. */
export function matching<Row extends { readonly searched: string }>(
  rows: readonly Row[],
  query: string,
): readonly Row[] {
  const words = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  if (words.length === 0) return rows;
  return rows.filter(({ searched }) => words.every((word) => searched.includes(word)));
}

/** Workloads that a query names, also through the name of one of their pods: `web-5d4f6-x2x8q` finds `web`. */
export function workloadsNamed(rows: readonly WorkloadRow[], query: string): readonly WorkloadRow[] {
  const word = query.trim().toLowerCase();
  if (word === "") return [];
  const [last = ""] = word.split("/").slice(-1);
  return rows.filter(({ searched, name }) => searched.includes(word) || last.startsWith(`${name}-`));
}

export function filterNames(rows: readonly NameRow[], filter: NameFilter): readonly NameRow[] {
  if (filter === "all") return rows;
  return rows.filter(({ reason, warning }) => (filter === "refused" ? reason !== undefined : warning !== undefined));
}

export function filterWorkloads(rows: readonly WorkloadRow[], filter: WorkloadFilter): readonly WorkloadRow[] {
  if (filter === "all") return rows;
  return rows.filter(({ standing, stale }) => stale > 0 && (filter === "stale" || standing === filter));
}

const KEYS: Readonly<Record<NameColumn, (row: NameRow) => string>> = {
  name: ({ name }) => name,
  from: ({ from }) => `${from.namespace}/${from.name}`,
  target: ({ target = "" }) => target,
  // Problems come first.
  state: ({ reason, warning }) => (reason ? `0${reason.code}` : warning ? `1${warning.code}` : "2"),
};

/** Sorts by a column, and equal rows by name. */
export function sortNames(rows: readonly NameRow[], { column, descending }: Order<NameColumn>): readonly NameRow[] {
  const keyOf = KEYS[column];
  const keyed = rows.map((row) => ({ row, key: keyOf(row) }));
  const sign = descending ? -1 : 1;
  keyed.sort((one, other) => sign * compare(one.key, other.key) || compare(one.row.name, other.row.name));
  return keyed.map(({ row }) => row);
}

function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
