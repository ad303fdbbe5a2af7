import { askedTexts } from "#lib/documents/asked-text.ts";
import { isStuck } from "#lib/workloads/workload-words.ts";
import type { Summary } from "../server/messages.ts";
import { noticesOf } from "./notices.ts";
import { linkTo } from "./route.ts";
import type { View } from "./state.ts";
import { Badge, count, Dotted, plain, ReasonText, StatusNotKnown } from "./text.tsx";

/** What somebody who was woken looks at first: what is wrong, and how much there is. */
export function Now({ view }: { readonly view: View }) {
  const { summary } = view;
  if (summary === undefined) {
    return (
      <>
        <Notices notices={noticesOf(view, Date.now())} advice={view.advice} />
        <StatusNotKnown trouble={view.trouble} />
      </>
    );
  }
  const notices = noticesOf(view, Date.now());
  const refused = view.names.filter(({ reason }) => reason !== undefined).length;
  const stuck = view.workloads.filter(isStuck).length;
  const { counts, unknown } = summary.running ?? {};
  const knowsPods = summary.running !== undefined && unknown === undefined;
  return (
    <>
      {notices.length === 0 ? (
        <p class="note good">No problems found.</p>
      ) : (
        <Notices notices={notices} advice={view.advice} />
      )}
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

interface NoticesProps {
  readonly notices: ReturnType<typeof noticesOf>;
  readonly advice: View["advice"];
}

function Notices({ notices, advice }: NoticesProps) {
  if (notices.length === 0) return null;
  return (
    <ul class="notes" aria-label="Problems">
      {notices.map(({ urgent, what }, index) => (
        <li key={index} class={urgent ? "note bad" : "note warn"}>
          {typeof what === "string" ? plain(what) : <ReasonText reason={what} advice={advice} />}
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
  const asked = askedTexts(ports, Date.now());
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
