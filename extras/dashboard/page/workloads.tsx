import { useMemo } from "preact/hooks";
import { stateText } from "#lib/workloads/workload-words.ts";
import { linkTo, useRoute } from "./route.ts";
import { type Column, Rows } from "./rows.tsx";
import { filterWorkloads, matching, workloadsNamed } from "./search.ts";
import { SearchForm } from "./search-form.tsx";
import type { View, WorkloadRow } from "./state.ts";
import { Badge, count, Dotted, plain, ReasonText, StatusNotKnown } from "./text.tsx";

const RANK: Readonly<Record<string, number>> = { stuck: 0, waiting: 1, left: 2 };

const FILTERS = [
  ["all", "all"],
  ["stale", "stale"],
  ["stuck", "stuck"],
  ["waiting", "waiting for a restart or an agent"],
] as const;

/** All workloads with opted-in pods, whether their pods are current, and which workload is being restarted. */
export function Workloads({ view }: { readonly view: View }) {
  const { query } = useRoute();
  const typed = query.get("q") ?? "";
  const sorted = useMemo(() => [...view.workloads].sort(byUrgency), [view.workloads]);
  const shown = FILTERS.find(([filter]) => filter === query.get("show"))?.[0] ?? "all";
  const rows = useMemo(() => {
    const wanted = filterWorkloads(sorted, shown);
    return [...new Set([...matching(wanted, typed), ...workloadsNamed(wanted, typed)])];
  }, [sorted, shown, typed]);
  const of = query.get("of");
  const chosen = of === null ? undefined : sorted.find((row) => keyOf(row) === of);
  const running = view.summary?.running;
  if (view.summary === undefined) return <StatusNotKnown trouble={view.trouble} />;
  if (running === undefined) {
    return view.summary.leader ? (
      <p class="none">No controller observes workloads here.</p>
    ) : (
      <p class="note bad">Unknown: no controller is the leader at the moment.</p>
    );
  }
  return (
    <>
      {running.unknown !== undefined && <p class="note bad">Unknown: {plain(running.unknown)}</p>}
      <p>
        Restarting now: <b>{plain(running.underWay ?? "none")}</b>; waiting: <b>{count(running.waiting)}</b>
      </p>
      <SearchForm
        find="Find a workload, a namespace or a pod"
        typed={typed}
        filters={FILTERS}
        shown={shown}
        found={`${count(rows.length)} of ${count(view.workloads.length)} workloads`}
      />
      {chosen && <Workload workload={chosen} view={view} />}
      <Rows
        label="Workloads"
        columns={columnsOf({ q: typed, show: shown === "all" ? "" : shown })}
        rows={rows}
        keyOf={({ id }) => id}
        isChosen={(row) => row === chosen}
        none={running.unknown === undefined ? "No workload matches." : "Not known."}
      />
    </>
  );
}

function byUrgency(one: WorkloadRow, other: WorkloadRow): number {
  const rank = ({ standing, stale }: WorkloadRow) => (stale > 0 ? (RANK[standing] ?? 3) : 4);
  return rank(one) - rank(other) || (one.searched < other.searched ? -1 : 1);
}

function keyOf({ namespace, kind, name }: WorkloadRow): string {
  return `${namespace}/${kind}/${name}`;
}

/** Everything that is known about one workload. */
function Workload({ workload, view }: { readonly workload: WorkloadRow; readonly view: View }) {
  const { pods, stale, notInjected, mode, modeFrom, code, text, lastRestart, warnings } = workload;
  return (
    <section class="way" aria-label="Workload">
      <h2>
        <Dotted name={keyOf(workload)} />
      </h2>
      <p>
        <WorkloadBadge row={workload} /> {count(pods - stale)} of {count(pods)} pods have the current names
        {notInjected > 0 && `; ${count(notInjected)} not injected`}
      </p>
      <p>
        On change: {plain(mode)} (set by {plain(modeFrom)}); last restart:{" "}
        {lastRestart ? new Date(lastRestart).toLocaleString() : "none"}
      </p>
      {[{ code, text }, ...warnings].map((reason) => (
        <ReasonText key={reason.code} reason={reason} advice={view.advice} />
      ))}
    </section>
  );
}

function columnsOf(query: Readonly<Record<string, string>>): readonly Column<WorkloadRow>[] {
  return [
    {
      id: "name",
      title: "Workload",
      cell: (row) => (
        <a href={linkTo("workloads", { ...query, of: keyOf(row) })}>
          <Dotted name={keyOf(row)} />
        </a>
      ),
    },
    { id: "pods", title: "Pods", cell: ({ pods, stale }) => `${count(pods - stale)} of ${count(pods)}` },
    { id: "state", title: "State", cell: (row) => <WorkloadBadge row={row} /> },
    { id: "why", title: "Why", cell: ({ code, text }) => plain(`${code}: ${text}`) },
  ];
}

const KINDS = { "in-step": "good", waiting: "warn", left: "idle", stuck: "bad" } as const;

function WorkloadBadge({ row: { standing, stale } }: { readonly row: WorkloadRow }) {
  return <Badge kind={stale === 0 ? "good" : KINDS[standing]}>{stateText({ standing, stale })}</Badge>;
}
