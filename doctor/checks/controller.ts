import type { Reason } from "../../hostmap/types.ts";
import type { ClusterFacts, WorkloadInfo } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "./install.ts";

const { ok, warning, broken, unknown } = findingsOf("controller");

/** Reasons that say what a name is, not that something is wrong with it. */
const HARMLESS: ReadonlySet<string> = new Set(["wildcard"]);

/** What the controller says of itself: whether one leads, what it could not read, what it holds back or refuses. */
export function checkController(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { status } = facts.install;
  const subject = "controller";
  if (!status.known) return [unknown(subject, status.reason.code, status.reason.text)];
  const { leader, sources, hold, names, warnings, synced, running } = status.value;
  const unsynced = sources.filter((source) => !source.synced).map(({ name }) => name);
  const findings: Finding[] = [];
  if (!leader) {
    const evidence = "no replica that answered leads: nothing is published, and no certificate is renewed";
    findings.push(
      broken(subject, "no-leader", evidence, "ask again in a minute; then see the controllers' logs and their Lease"),
    );
  }
  if (!synced || unsynced.length > 0) {
    const evidence = `not everything has been read yet: ${unsynced.join(", ") || "its own objects"}`;
    findings.push(
      broken(subject, "source-not-synced", evidence, "see the controller's log for what the API server refuses it"),
    );
  }
  if (hold !== undefined) {
    const evidence = `${hold.names} of ${hold.of} names are held back from leaving the map until ${new Date(hold.until).toISOString()}`;
    findings.push(warning(subject, "removal-held", evidence, "`switchback confirm`, if they are meant to go"));
  }
  findings.push(...warnings.map(({ code, text }) => warning(subject, code, text, "see the controller's /status")));
  const refused = names.flatMap(({ reason }) => (reason === undefined || HARMLESS.has(reason.code) ? [] : [reason]));
  if (refused.length > 0)
    findings.push(
      warning(subject, "names-refused", refusedText(refused), "see `reason` of each in the controller's /status"),
    );
  findings.push(...judgeWorkloads(running?.workloads ?? []));
  if (findings.length > 0) return findings;
  return [
    ok(subject, "controller-settled", `all sources are read, ${names.length} name(s) are claimed, none is refused`),
  ];
}

function refusedText(reasons: readonly Reason[]): string {
  const counts = Map.groupBy(reasons, ({ code }) => code);
  const list = [...counts].map(([code, all]) => `${code} (${all.length}: ${all[0]?.text ?? ""})`);
  return `${reasons.length} claim(s) are not in pods: ${list.join("; ")}`;
}

/** Those whose pods stay behind until somebody does something, by the leader's own account. */
function judgeWorkloads(workloads: readonly WorkloadInfo[]): Finding[] {
  const stuck = workloads.filter(({ standing, stale }) => standing === "stuck" && stale > 0);
  const cure = "`switchback restart NAMESPACE/WORKLOAD`; docs/running-pods.md says what each reason means";
  return stuck.map(({ namespace, kind, name, stale, code, text }) => {
    const evidence = `${stale} pod(s) have not the current names, and stay so: ${code}: ${text}`;
    return warning(`${kind} ${namespace}/${name}`, "workload-stuck", evidence, cure);
  });
}
