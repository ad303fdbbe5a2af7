import type { ComponentChildren } from "preact";
import { linkTo } from "./route.ts";
import type { View } from "./state.ts";
import { Badge, count, plain, ReasonText } from "./text.tsx";

/** What somebody who was woken looks at first: what is wrong, and how much there is. */
export function Now({ view }: { readonly view: View }) {
  const { summary } = view;
  if (summary === undefined) return null;
  const refused = view.names.filter(({ reason }) => reason !== undefined).length;
  const stuck = view.workloads.filter(({ standing, stale }) => standing === "stuck" && stale > 0).length;
  const { counts, unknown } = summary.running ?? {};
  const knowsPods = summary.running !== undefined && unknown === undefined;
  return (
    <>
      <Notices view={view} />
      <ul class="tiles">
        <Tile title="Names" value={view.names.length} href={linkTo("names")} />
        <Tile
          title="Refused"
          value={refused}
          kind={refused > 0 ? "warn" : "good"}
          href={linkTo("names", { show: "refused" })}
        />
        <Tile title="Workloads" value={knowsPods ? counts?.workloads : undefined} href={linkTo("workloads")} />
        <Tile
          title="Stuck"
          value={knowsPods ? stuck : undefined}
          kind={stuck > 0 ? "bad" : "good"}
          href={linkTo("workloads", { q: "" })}
        />
        <Tile title="Pods behind" value={knowsPods ? counts?.stale : undefined} href={linkTo("workloads")} />
      </ul>
      <Targets view={view} />
    </>
  );
}

interface TileProps {
  readonly title: string;
  /** Undefined: not known. */
  readonly value: number | undefined;
  readonly kind?: "good" | "warn" | "bad";
  readonly href: string;
}

function Tile({ title, value, kind, href }: TileProps) {
  return (
    <li>
      <a class={value === undefined ? undefined : kind} href={href}>
        <b>{value === undefined ? "unknown" : count(value)}</b> {title}
      </a>
    </li>
  );
}

function Notices({ view: { summary, advice } }: { readonly view: View }) {
  if (summary === undefined) return null;
  const { hold, sources, running } = summary;
  const notes: ComponentChildren[] = [
    ...(summary.leader
      ? []
      : ["No controller is the leader: the state of workloads is not known, and nothing is published."]),
    ...(summary.revision === undefined ? ["No map is published yet."] : []),
    ...(hold
      ? [
          `The removal of ${count(hold.names)} of ${count(hold.of)} names is held until ${new Date(hold.until).toLocaleString()}: look why they vanish; switchback confirm removes them now.`,
        ]
      : []),
    ...sources
      .filter(({ synced }) => !synced)
      .map(({ name }) => `The source ${name} is not read yet: what it has is not known.`),
    ...sources.flatMap(({ problems }) =>
      problems.map(({ place, code, text }) => (
        <ReasonText reason={{ code, text: `${place}: ${text}` }} advice={advice} />
      )),
    ),
    ...summary.warnings.map((reason) => <ReasonText reason={reason} advice={advice} />),
    ...(running?.unknown === undefined ? [] : [`The state of pods is not known: ${running.unknown}`]),
  ];
  if (notes.length === 0) return <p class="note good">Nothing that the controller knows of needs anybody.</p>;
  return (
    <ul class="notes" aria-label="What needs somebody">
      {notes.map((note, index) => (
        <li key={index} class="note warn">
          {typeof note === "string" ? plain(note) : note}
        </li>
      ))}
    </ul>
  );
}

function Targets({ view: { summary } }: { readonly view: View }) {
  const targets = summary?.targets ?? [];
  return (
    <>
      <h2>Targets</h2>
      {targets.length === 0 && <p class="none">none</p>}
      <ul class="cards">
        {targets.map(({ name, relayed, clusterIPs, upstream, ports }) => (
          <li key={name}>
            <h3>{plain(name)}</h3>
            <p>{plain(upstream || "no upstream known")}</p>
            <p>{plain(clusterIPs.join(", ")) || <Badge kind="bad">no address</Badge>}</p>
            <p>
              {relayed ? "relayed, ports " : "direct, ports "}
              {ports.map(({ port }) => port).join(", ")}
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}
