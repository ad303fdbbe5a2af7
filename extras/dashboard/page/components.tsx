import type { ComponentChildren } from "preact";
import type { Fact } from "#doctor/fact.ts";
import type { MeasuredState } from "../server/messages.ts";
import type { PublisherReport } from "../server/publishers.ts";
import type { View } from "./state.ts";
import { Badge, count, plain, Ticked } from "./text.tsx";

const DAY_SECONDS = 86_400;

/** What runs: Deployments, sources, certificates, agents and publishers. */
export function Components({ view }: { readonly view: View }) {
  const { components, measured, summary } = view;
  return (
    <>
      <h2>Deployments</h2>
      <Known trouble={view.trouble} fact={components?.deployments}>
        {(deployments) => (
          <ul class="cards">
            {deployments.map(({ name, ready, desired, image }) => (
              <li key={name}>
                <h3>{plain(name)}</h3>
                <Badge
                  kind={ready >= desired ? "good" : ready === 0 ? "bad" : "warn"}
                >{`${ready} of ${desired} ready`}</Badge>
                <p class="faint">{plain(image)}</p>
              </li>
            ))}
          </ul>
        )}
      </Known>
      <h2>Sources</h2>
      <ul class="cards">
        {(summary?.sources ?? []).map(({ name, synced, problems }) => (
          <li key={name}>
            <h3>{plain(name)}</h3>
            <Badge kind={!synced ? "warn" : problems.length > 0 ? "bad" : "good"}>
              {!synced ? "not read yet" : problems.length > 0 ? `${count(problems.length)} problems` : "read"}
            </Badge>
          </li>
        ))}
      </ul>
      <h2>Certificates</h2>
      <Known trouble={view.trouble} fact={measured}>
        {(state) => (
          <>
            <Rotation state={state} advice={view.advice} />
            <Certificates certificates={state.certificates} now={Date.now() / 1_000} />
          </>
        )}
      </Known>
      <h2>Agents</h2>
      <Known trouble={view.trouble} fact={components?.agents}>
        {(agents) =>
          agents.length === 0 ? (
            <p class="none">no agents run</p>
          ) : (
            <ul class="cards">
              {[...agents]
                .sort((one, other) => other.silentMs - one.silentMs)
                .slice(0, MAX_AGENTS)
                .map(({ name, mapRevision, silentMs, alive }) => (
                  <li key={name}>
                    <h3>{plain(name.replace(/^switchback-agent-/, ""))}</h3>
                    <AgentBadge
                      silentMs={silentMs}
                      alive={alive}
                      isCurrent={mapRevision !== undefined && mapRevision === summary?.revision}
                    />
                  </li>
                ))}
              {agents.length > MAX_AGENTS && (
                <li class="faint">and {count(agents.length - MAX_AGENTS)} more, silent for no longer than these</li>
              )}
            </ul>
          )
        }
      </Known>
      <h2>Publishers</h2>
      <Known trouble={view.trouble} fact={components?.publishers}>
        {(publishers) =>
          publishers.length === 0 ? (
            <p class="none">no publishers run</p>
          ) : (
            <ul class="cards">
              {publishers.map((report) => (
                <Publisher key={report.name} report={report} />
              ))}
            </ul>
          )
        }
      </Known>
    </>
  );
}

function Publisher({ report }: { readonly report: PublisherReport }) {
  const { name, place, names, leftOut, behindSince, problem } = report;
  return (
    <li>
      <h3>{plain(name)}</h3>
      <Badge kind={problem !== undefined ? "bad" : behindSince !== undefined ? "warn" : "good"}>
        {problem?.code ?? (behindSince === undefined ? "current" : "behind")}
      </Badge>
      {problem !== undefined && <p>{plain(problem.text)}</p>}
      <p>
        {count(names)} names{leftOut > 0 && `, ${count(leftOut)} left out`}
      </p>
      <p class="faint">{plain(place)}</p>
    </li>
  );
}

/** Maximum number of agents shown. Those that have been silent for longest come first. */
const MAX_AGENTS = 200;

interface AgentBadgeProps {
  readonly silentMs: number;
  readonly alive: boolean;
  readonly isCurrent: boolean;
}

function AgentBadge({ silentMs, alive, isCurrent }: AgentBadgeProps) {
  if (!alive) return <Badge kind="bad">{`silent for ${count(Math.round(silentMs / 1_000))} s`}</Badge>;
  return isCurrent ? <Badge kind="good">current</Badge> : <Badge kind="warn">behind, or uses selections</Badge>;
}

/** Shows a fact, or why it is not known. Never shows nothing. */
function Known<T>({
  fact,
  trouble,
  children,
}: {
  readonly fact: Fact<T> | undefined;
  /** The reason at the head of the page, which is not repeated here. */
  readonly trouble: string | undefined;
  readonly children: (value: T) => ComponentChildren;
}) {
  if (fact === undefined) return <p class="none">Not read yet, or there is no cluster to ask.</p>;
  if (!fact.known && fact.reason.text === trouble) return <p class="none">Not known.</p>;
  if (!fact.known) return <p class="note bad">Unknown: {plain(fact.reason.text)}</p>;
  return <>{children(fact.value)}</>;
}

/** What the controller does about the certificates. */
function Rotation({
  state: { rotation, rotationFails },
  advice,
}: {
  readonly state: MeasuredState;
  readonly advice: View["advice"];
}) {
  if (rotation === undefined) return <p class="none">Rotation: unknown, because no leader reports it.</p>;
  const meaning = Object.hasOwn(advice, rotation) ? advice[rotation]?.cause : undefined;
  return (
    <p>
      Rotation: <code>{plain(rotation)}</code>{" "}
      {rotationFails && <Badge kind="bad">the last attempt failed: see the controller's log</Badge>}{" "}
      {meaning !== undefined && <Ticked text={meaning} />}
    </p>
  );
}

/** A time line of the certificates, from now to the latest end. */
function Certificates({
  certificates,
  now,
}: {
  readonly certificates: Readonly<Record<string, number>>;
  readonly now: number;
}) {
  const ends = Object.entries(certificates).sort(([, one], [, other]) => one - other);
  if (ends.length === 0) return <p class="none">Unknown: no replica reports certificates.</p>;
  const last = Math.max(...ends.map(([, end]) => end - now), 1);
  return (
    <ul class="ends">
      {ends.map(([name, end]) => {
        const days = (end - now) / DAY_SECONDS;
        return (
          <li key={name}>
            {plain(name)}: until {new Date(end * 1_000).toLocaleString()}{" "}
            <Badge kind={days < 1 ? "bad" : days < 7 ? "warn" : "good"}>{left(days)}</Badge>
            <div class="line" style={{ width: `${Math.max(1, (100 * (end - now)) / last)}%` }} />
          </li>
        );
      })}
    </ul>
  );
}

function left(days: number): string {
  if (days < 0) return "expired";
  return days < 2 ? `${count(Math.floor(days * 24))} hours` : `${count(Math.floor(days))} days`;
}
