import type { Summary } from "../server/messages.ts";
import type { NameRow, View } from "./state.ts";
import { Badge, Dotted, plain, ReasonText } from "./text.tsx";
import { type StepState, type WayStep, wayOf } from "./way.ts";

const BADGES: Readonly<Record<StepState, readonly ["good" | "warn" | "bad" | "idle", string]>> = {
  works: ["good", "works"],
  warning: ["warn", "warning"],
  broken: ["bad", "broken here"],
  beyond: ["idle", "not reached"],
  unknown: ["idle", "not checked"],
};

interface WayProps {
  readonly name: NameRow;
  readonly summary: Summary;
  readonly view: View;
}

/** Draws the way of a name as an ordered list, which a screen reader can read aloud. */
export function Way({ name, summary, view }: WayProps) {
  return (
    <section class="way" aria-label="Way of the name">
      <h2>
        <Dotted name={name.name} />
      </h2>
      <ol>
        {wayOf(name, summary, view).map((step) => (
          <Step key={step.title} step={step} advice={view.advice} />
        ))}
      </ol>
    </section>
  );
}

function Step({
  step: { title, values, state, reason },
  advice,
}: {
  readonly step: WayStep;
  readonly advice: View["advice"];
}) {
  const [kind, words] = BADGES[state];
  return (
    <li class={state}>
      <h3>{plain(title)}</h3>
      {values.length === 0 ? (
        <p>none</p>
      ) : (
        values.map((value) => (
          <p key={value}>
            <Dotted name={value} />
          </p>
        ))
      )}
      <Badge kind={kind}>{words}</Badge>
      {reason && <ReasonText reason={reason} advice={advice} />}
    </li>
  );
}
