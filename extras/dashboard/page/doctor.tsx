import { useState } from "preact/hooks";
import type { Finding, FindingStatus } from "#doctor/findings.ts";
import type { ReportDocument } from "#doctor/report.ts";
import type { View } from "./state.ts";
import { Badge, plain, Ticked } from "./text.tsx";

type Examination =
  | { readonly is: "not-run" | "running" }
  | { readonly is: "done"; readonly report: ReportDocument; readonly at: number }
  | { readonly is: "failed"; readonly text: string };

const KINDS: Readonly<Record<FindingStatus, "good" | "warn" | "bad" | "idle">> = {
  ok: "good",
  unknown: "idle",
  warning: "warn",
  broken: "bad",
};
/** Problems come first. */
const ORDER: readonly FindingStatus[] = ["broken", "warning", "unknown", "ok"];

/** The last examination outlives a look at another view. */
let last: Examination = { is: "not-run" };

/** The doctor's findings, once somebody has run it. */
export function Doctor({ view }: { readonly view: View }) {
  const [examination, setExamination] = useState(last);
  const set = (next: Examination) => {
    last = next;
    setExamination(next);
  };
  if (!view.canExamine) return <p class="none">There is no cluster to examine.</p>;
  return (
    <>
      <button type="button" class="run" disabled={examination.is === "running"} onClick={() => void examine(set)}>
        Run the doctor
      </button>
      <div role="status">
        {examination.is === "not-run" && <p>It reads the cluster with your rights, and creates a pod as a dry run.</p>}
        {examination.is === "running" && <p>examining the cluster</p>}
        {examination.is === "failed" && <p class="note bad">{plain(examination.text)}</p>}
        {examination.is === "done" && <Counts report={examination.report} at={examination.at} />}
      </div>
      {examination.is === "done" && <Findings findings={examination.report.findings} />}
    </>
  );
}

async function examine(set: (next: Examination) => void): Promise<void> {
  set({ is: "running" });
  try {
    const response = await fetch("doctor", { method: "POST" });
    if (!response.ok) throw new Error(await response.text());
    set({ is: "done", report: await response.json(), at: Date.now() });
  } catch (error) {
    set({ is: "failed", text: error instanceof Error ? error.message : String(error) });
  }
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
