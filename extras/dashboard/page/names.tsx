import { useMemo, useState } from "preact/hooks";
import { linkTo, useRoute } from "./route.ts";
import { type Column, Rows } from "./rows.tsx";
import {
  filterNames,
  matching,
  type NameColumn,
  type NameFilter,
  type Order,
  sortNames,
  workloadsNamed,
} from "./search.ts";
import { SearchForm } from "./search-form.tsx";
import type { NameRow, View, WorkloadRow } from "./state.ts";
import { Badge, count, Dotted, plain, StatusNotKnown } from "./text.tsx";
import { Way } from "./way-drawing.tsx";

const FILTERS = [
  ["all", "all"],
  ["refused", "refused"],
  ["warned", "with a warning"],
] as const;

/** All claimed names, which can be searched and sorted, and the way of the chosen one. */
export function Names({ view }: { readonly view: View }) {
  const { query } = useRoute();
  const typed = query.get("q") ?? "";
  const shown = FILTERS.find(([filter]) => filter === query.get("show"))?.[0] ?? "all";
  const [order, setOrder] = useState<Order<NameColumn>>({ column: "state", descending: false });
  const sorted = useMemo(() => sortNames(view.names, order), [view.names, order]);
  const rows = useMemo(() => matching(filterNames(sorted, shown), typed), [sorted, shown, typed]);
  const chosen = chosenIn(view.names, query);
  const { summary } = view;
  if (summary === undefined) return <StatusNotKnown trouble={view.trouble} />;
  return (
    <>
      <Search typed={typed} shown={shown} rows={rows.length} view={view} />
      {chosen && <Way name={chosen} summary={summary} view={view} />}
      {chosen === undefined && query.has("name") && (
        <p class="note bad" role="status">
          No object claims {plain(query.get("name") ?? "")}: pods look it up in the cluster's DNS.
        </p>
      )}
      <Rows
        label="Names"
        columns={columnsOf(order, setOrder, { q: typed, show: shown === "all" ? "" : shown })}
        rows={rows}
        keyOf={({ id }) => id}
        isChosen={(row) => row === chosen}
        none={view.names.length === 0 ? "No object claims a name." : "No name matches."}
      />
    </>
  );
}

/** The chosen name. If several objects claim it, the claim that the page's address names, or else the first one. */
function chosenIn(names: readonly NameRow[], query: URLSearchParams): NameRow | undefined {
  const name = query.get("name");
  if (name === null) return undefined;
  const claims = names.filter((each) => each.name === name);
  return claims.find((each) => sourceOf(each) === query.get("of")) ?? claims[0];
}

function sourceOf({ from }: NameRow): string {
  return `${from.kind} ${from.namespace}/${from.name}`;
}

interface SearchProps {
  readonly typed: string;
  readonly shown: NameFilter;
  readonly rows: number;
  readonly view: View;
}

function Search({ typed, shown, rows, view }: SearchProps) {
  const workloads = workloadsNamed(view.workloads, typed);
  return (
    <SearchForm
      find="Find a name, a namespace, a pod or a workload"
      typed={typed}
      filters={FILTERS}
      shown={shown}
      found={`${count(rows)} of ${count(view.names.length)} names`}
    >
      {workloads.length > 0 && <WorkloadsFound workloads={workloads} typed={typed} />}
    </SearchForm>
  );
}

function WorkloadsFound({ workloads, typed }: { readonly workloads: readonly WorkloadRow[]; readonly typed: string }) {
  const [first] = workloads;
  if (first === undefined) return null;
  const query = workloads.length === 1 ? `${first.namespace}/${first.name}` : typed;
  return (
    <p>
      <a href={linkTo("workloads", { q: query })}>
        {workloads.length === 1
          ? plain(`${first.kind} ${first.namespace}/${first.name}`)
          : `${count(workloads.length)} workloads match`}
      </a>
    </p>
  );
}

function columnsOf(
  order: Order<NameColumn>,
  setOrder: (order: Order<NameColumn>) => void,
  query: Readonly<Record<string, string>>,
): Column<NameRow>[] {
  const sortBy = (column: NameColumn) => ({
    descending: order.column === column ? order.descending : undefined,
    choose: () => setOrder({ column, descending: order.column === column && !order.descending }),
  });
  const link = (row: NameRow) => linkTo("names", { ...query, name: row.name, of: sourceOf(row) });
  return [
    {
      id: "name",
      title: "Name",
      sort: sortBy("name"),
      cell: (row) => (
        <a href={link(row)}>
          <Dotted name={row.name} />
        </a>
      ),
    },
    { id: "from", title: "From", sort: sortBy("from"), cell: (row) => plain(sourceOf(row)) },
    { id: "target", title: "Target", sort: sortBy("target"), cell: ({ target = "-" }) => plain(target) },
    { id: "state", title: "State", sort: sortBy("state"), cell: (row) => <NameBadge row={row} /> },
  ];
}

function NameBadge({ row: { reason, warning } }: { readonly row: NameRow }) {
  if (reason !== undefined) return <Badge kind="bad">{plain(reason.code)}</Badge>;
  if (warning !== undefined) return <Badge kind="warn">{plain(warning.code)}</Badge>;
  return <Badge kind="good">mapped</Badge>;
}
