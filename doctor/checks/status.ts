import type { Reason } from "#hostmap/types.ts";
import type { StatusPage } from "#lib/documents/status-page.ts";
import { isStuck } from "#lib/workloads/workload-words.ts";
import { type Finding, findingsOf } from "../findings.ts";

const { warning, broken } = findingsOf("controller");

/** Reasons that describe a name and are not a problem. */
const HARMLESS: ReadonlySet<string> = new Set(["wildcard"]);

/** Whether a name is refused: no pod gets it, although somebody may want it. */
export function isRefused(name: { readonly reason?: Reason | undefined }): boolean {
  return name.reason !== undefined && !HARMLESS.has(name.reason.code);
}

/** Reports the problems in a controller's status. A pure function; the doctor is not its only user. */
export function checkStatus(status: StatusPage): Finding[] {
  const subject = "controller";
  const { leader, sources, hold, names, warnings, synced, running } = status;
  const unsynced = sources.filter((source) => !source.synced).map(({ name }) => name);
  const findings: Finding[] = [];
  if (!leader) {
    const evidence = "no replica that answered is the leader: nothing is published, and no certificate is renewed";
    findings.push(
      broken(subject, "no-leader", evidence, "run again in a minute; then check the controller's logs and Lease"),
    );
  }
  if (!synced || unsynced.length > 0) {
    const evidence = `not synced: ${unsynced.join(", ") || "its own objects"}`;
    findings.push(
      broken(
        subject,
        "source-not-synced",
        evidence,
        "check the controller's log for requests that the API server refuses",
      ),
    );
  }
  if (hold !== undefined) {
    const evidence =
      `${hold.names} of ${hold.of} names are held in the map until ` + `${new Date(hold.until).toISOString()}`;
    findings.push(warning(subject, "removal-held", evidence, "check the sources: the names leave at that time"));
  }
  findings.push(...warnings.map(({ code, text }) => warning(subject, code, text, ...curesOf(code))));
  const refused = names.filter(isRefused).length;
  if (refused > 0) {
    const cure = "`switchback status --refused` has each reason";
    findings.push(warning(subject, "names-refused", `${refused} claim(s) are refused`, cure));
  }
  const problems = sources.flatMap((source) => source.problems ?? []);
  const [first] = problems;
  if (first !== undefined) {
    const example = `${first.place}: ${first.text}`;
    const evidence = `${problems.length} object(s) are refused in whole or in part, such as ${example}`;
    findings.push(warning(subject, "source-problems", evidence, "see docs/codes.md for what to do about each code"));
  }
  // Workloads that stay stale until a person acts.
  const stuck = (running?.workloads ?? []).filter(isStuck).map(({ namespace, kind, name, stale, code, text }) => {
    const evidence = `${stale} pod(s) lack the current names and are not restarted: ${code}: ${text}`;
    const cure = "run `switchback restart NAMESPACE/WORKLOAD`; docs/codes.md has each reason";
    return warning(`${kind} ${namespace}/${name}`, "workload-stuck", evidence, cure);
  });
  return [...findings, ...stuck];
}

function curesOf(code: string): string[] {
  if (code !== "header-contradicted") return ["`switchback status` has the details"];
  return [
    "if the ingress controller should expect the detected header, correct the annotation",
    "otherwise correct its setting, or make it trust all proxies (docs/trust/README.md)",
  ];
}
