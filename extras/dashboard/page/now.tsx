import { askedTexts } from "#lib/documents/header-answers.ts";
import { isStuck } from "#lib/workloads/workload-words.ts";
import type { Summary } from "../server/messages.ts";
import { levelOf, type Notice, noticesOf, onlyWrongName } from "./notices.ts";
import { linkTo } from "./route.ts";
import type { View } from "./state.ts";
import { Badge, count, Dotted, plain, ReasonText, StatusNotKnown } from "./text.tsx";
import { Way } from "./way-drawing.tsx";

/** The first view for a person on call: what is wrong, and how many objects there are. */
export function Now({ view }: { readonly view: View }) {
  const { summary } = view;
  if (summary === undefined) {
    return (
      <>
        <Problems view={view} />
        <StatusNotKnown trouble={view.trouble} />
      </>
    );
  }
  const refused = view.names.filter(({ reason }) => reason !== undefined).length;
  const stuck = view.workloads.filter(isStuck).length;
  const { counts, unknown } = summary.running ?? {};
  const knowsPods = summary.running !== undefined && unknown === undefined;
  return (
    <>
      <Problems view={view} />
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
          href={linkTo("workloads", { show: "stuck" })}
        />
        <Tile
          title="Stale pods"
          value={knowsPods ? counts?.stale : undefined}
          href={linkTo("workloads", { show: "stale" })}
        />
      </ul>
      <Targets view={view} />
    </>
  );
}

/** The problems. If one name is the only problem, its way shows where it is broken. */
function Problems({ view }: { readonly view: View }) {
  const notices = noticesOf(view, Date.now());
  const name = onlyWrongName(view, notices);
  if (name !== undefined && view.summary !== undefined) return <Way name={name} summary={view.summary} view={view} />;
  const level = levelOf(view, notices);
  if (level === "unknown") return <p class="note">No problems found so far. The doctor examines the cluster.</p>;
  if (level === "good") return <p class="note good">No problems found.</p>;
  return <Notices notices={notices} advice={view.advice} />;
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

function Notices({ notices, advice }: { readonly notices: readonly Notice[]; readonly advice: View["advice"] }) {
  return (
    <ul class="notes" aria-label="Problems">
      {notices.map(({ urgent, what, cures }, index) => (
        <li key={index} class={urgent ? "note bad" : "note warn"}>
          {typeof what === "string" ? plain(what) : <ReasonText reason={what} advice={advice} cures={cures} />}
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
        {targets.map((target) => (
          <Target key={target.name} target={target} />
        ))}
      </ul>
    </>
  );
}

function Target({ target }: { readonly target: Summary["targets"][number] }) {
  const { name, relayed, clusterIPs, upstream, ports } = target;
  const asked = askedTexts(ports);
  return (
    <li aria-label={`Target ${plain(name)}`}>
      <h3>{plain(name)}</h3>
      <dl>
        <dt>Ingress controller</dt>
        <dd>{upstream === "" ? "not known" : <Dotted name={upstream} />}</dd>
        <dt>{relayed ? "Front address" : "Address"}</dt>
        <dd>{clusterIPs.length === 0 ? <Badge kind="bad">no address</Badge> : plain(clusterIPs.join(", "))}</dd>
        <dt>{relayed ? "Relayed ports" : "Direct ports"}</dt>
        <dd>{ports.map(({ port }) => port).join(", ")}</dd>
        {asked.length > 0 && <dt>Asked for a PROXY header</dt>}
        {asked.map((text) => (
          <dd key={text}>{plain(text)}</dd>
        ))}
      </dl>
    </li>
  );
}
