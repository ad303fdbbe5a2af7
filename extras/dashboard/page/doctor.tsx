import { useState } from "preact/hooks";
import type { Finding, FindingStatus } from "#doctor/findings.ts";
import type { ReportDocument } from "#doctor/report.ts";
import type { View } from "./state.ts";
import { Badge, plain, Ticked } from "./text.tsx";

const KINDS: Readonly<Record<FindingStatus, "good" | "warn" | "bad" | "idle">> = {
  ok: "good",
  unknown: "idle",
  warning: "warn",
  broken: "bad",
};
/** Problems come first. */
const ORDER: readonly FindingStatus[] = ["broken", "warning", "unknown", "ok"];

/** The doctor's findings. The command runs the doctor at intervals, and on request. */
export function Doctor({ view: { canExamine, examined } }: { readonly view: View }) {
  const [isRunning, setRunning] = useState(false);
  if (!canExamine) return <p class="none">There is no cluster to examine.</p>;
  const run = () => {
    setRunning(true);
    // The feed delivers the findings, or the reason why there are none.
    void fetch("doctor", { method: "POST" })
      .catch(() => {})
      .finally(() => setRunning(false));
  };
  return (
    <>
      <button type="button" class="run" disabled={isRunning} onClick={run}>
        Run the doctor
      </button>
      <div role="status">
        {(isRunning || examined === undefined) && <p>examining the cluster</p>}
        {examined?.report.known && <Counts report={examined.report.value} at={examined.at} />}
        {examined?.report.known === false && <p class="note bad">{plain(examined.report.reason.text)}</p>}
      </div>
      {examined?.report.known && <Findings findings={examined.report.value.findings} />}
    </>
  );
}

function Counts({ report: { counts }, at }: { readonly report: ReportDocument; readonly at: number }) {
  const parts = ORDER.map((status) => `${counts[status]} ${status}`);
  return (
    <p>
      {parts.join(", ")}, at {new Date(at).toLocaleTimeString()}
    </p>
  );
}

function Findings({ findings }: { readonly findings: readonly Finding[] }) {
  const sorted = [...findings].sort((one, other) => ORDER.indexOf(one.status) - ORDER.indexOf(other.status));
  return (
    <ul class="findings">
      {sorted.map(({ status, check, code, subject, evidence, cures }, index) => (
        <li key={index} class={status}>
          <h2>
            <Badge kind={KINDS[status]}>{status}</Badge> {plain(subject)}
          </h2>
          <p>{plain(evidence)}</p>
          {cures.map((cure) => (
            <p key={cure} class="cure">
              <Ticked text={plain(cure)} />
            </p>
          ))}
          <p class="faint">
            {plain(check)}/{plain(code)}
          </p>
        </li>
      ))}
    </ul>
  );
}
