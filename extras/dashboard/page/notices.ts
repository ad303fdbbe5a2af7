import { checkComponents, checkDeployment, isComponent } from "#doctor/checks/deployments.ts";
import { checkStatus, isRefused } from "#doctor/checks/status.ts";
import type { Finding } from "#doctor/findings.ts";
import type { Reason } from "#hostmap/types.ts";
import { isStuck } from "#lib/workloads/workload-words.ts";
import type { Components, MeasuredState, Summary } from "../server/messages.ts";
import type { PublisherReport } from "../server/publishers.ts";
import type { NameRow, View } from "./state.ts";

/** A problem that somebody has to look at. */
export interface Notice {
  /** True if connections fail, pods start without names, or names are about to go. Other notices can wait. */
  readonly urgent: boolean;
  /** A sentence, or a reason whose code has a remedy. */
  readonly what: string | Reason;
  /** What to do about this notice. If missing, the page shows the remedy of the code. */
  readonly cures?: readonly string[];
}

/** The state of an installation at a glance. `unknown`: nothing is known to be wrong, but the doctor has not run. */
export type Level = "good" | "warn" | "bad" | "unknown";

const urgent = (what: Notice["what"]): Notice => ({ urgent: true, what });
const later = (what: Notice["what"]): Notice => ({ urgent: false, what });

const DAY_SECONDS = 86_400;
/** Maximum number of problems shown for a source: a tenant can write any number of unreadable objects. */
const MAX_PROBLEMS = 10;
/** Codes of findings about a status that the page shows in another way: one by one, or as a number. */
const SHOWN_OTHERWISE: readonly string[] = ["source-problems", "workload-stuck"];

/** All known problems, the urgent ones first. `now`: milliseconds since 1970. Pure. */
export function noticesOf(view: View, now: number): Notice[] {
  const { summary, components, measured } = view;
  const notices = [
    ...ofComponents(view),
    ...(summary === undefined ? [] : ofStatus(view, summary)),
    ...(measured?.known ? ofMeasured(measured.value, now) : []),
    ...ofDoctor(view),
    ...ofUnknown(view),
    ...(summary === undefined ? [] : ofSources(summary)),
    ...(components?.publishers.known ? components.publishers.value.flatMap(ofPublisher) : []),
  ];
  return [...notices.filter((notice) => notice.urgent), ...notices.filter((notice) => !notice.urgent)];
}

/** The level that follows from the notices. It is never better than the doctor's findings. */
export function levelOf({ canExamine, examined }: View, notices: readonly Notice[]): Level {
  if (notices.length > 0) return notices.some((notice) => notice.urgent) ? "bad" : "warn";
  return canExamine && examined === undefined ? "unknown" : "good";
}

/** The name that is the only problem; undefined if there is no problem or another one. */
export function onlyWrongName({ names }: View, notices: readonly Notice[]): NameRow | undefined {
  const wrong = names.filter((name) => isRefused(name) || name.warning !== undefined);
  return wrong.length === 1 && notices.every(isOfRefusedNames) ? wrong[0] : undefined;
}

function isOfRefusedNames({ what }: Notice): boolean {
  return typeof what !== "string" && what.code === "names-refused";
}

function noticeOf({ status, code, subject, evidence, cures }: Finding): Notice {
  // If a removal is held, names are about to go.
  const isUrgent = status === "broken" || code === "removal-held";
  return { urgent: isUrgent, what: { code, text: `${subject}: ${evidence}` }, cures };
}

const isBad = ({ status }: Finding) => status === "broken" || status === "warning";

function ofStatus({ names, workloads }: View, summary: Summary): Notice[] {
  const { leader, revision, running } = summary;
  const stuck = workloads.filter(isStuck).length;
  const findings = checkStatus({ ...summary, names, running: running && { workloads } });
  return [
    ...findings.filter((each) => isBad(each) && !SHOWN_OTHERWISE.includes(each.code)).map(noticeOf),
    ...(leader && revision === undefined
      ? [
          later(
            "The leader has not published a map yet, as in its first seconds: what was published before stays in use.",
          ),
        ]
      : []),
    ...(stuck === 0 ? [] : [later(`Stuck workloads: ${stuck}. The view Workloads has each reason.`)]),
    ...(running?.unknown === undefined ? [] : [later(`The state of pods is not known: ${running.unknown}`)]),
  ];
}

/**
 * Notices about Deployments. As in the doctor, a component that is missing or scaled to 0 is as bad as one that
 * fails. If the Deployments cannot be read now, those that were read last count.
 */
function ofComponents({ components, lastDeployments, examined }: View): Notice[] {
  const deployments = components?.deployments.known ? components.deployments.value : lastDeployments;
  if (deployments === undefined) return [];
  // If there are no components, only the doctor knows whether they were lost or never installed.
  if (!haveComponent(deployments) && examined?.report.known) return [];
  const needed = checkComponents(deployments, (name) => name);
  const others = deployments.filter(({ name, desired }) => !isComponent(name) && desired > 0);
  const findings = [...needed, ...others.map((one) => checkDeployment(one.name, one, "its work has stopped"))];
  return findings.filter(isBad).map(noticeOf);
}

function isInstalled({ deployments }: Components): boolean {
  return deployments.known && haveComponent(deployments.value);
}

function haveComponent(deployments: ReadonlyArray<{ readonly name: string }>): boolean {
  return deployments.some(({ name }) => isComponent(name));
}

/** The doctor's findings, except those about something that the page itself reads more often. */
function ofDoctor(view: View): Notice[] {
  if (!view.examined?.report.known) return [];
  const { findings } = view.examined.report.value;
  const unchecked = findings.filter(({ status }) => status === "unknown");
  const [first, ...others] = unchecked.filter((finding) => !isSeenHere(finding, view));
  return [
    ...findings.filter((finding) => isBad(finding) && !isSeenHere(finding, view)).map(noticeOf),
    ...(first === undefined
      ? []
      : [
          later({
            code: first.code,
            text:
              `not checked: ${first.subject}: ${first.evidence}` +
              (others.length === 0 ? "" : `; and ${others.length} more: the view Doctor has each`),
          }),
        ]),
  ];
}

function isSeenHere({ check, code }: Finding, { components, summary, trouble, measured }: View): boolean {
  if (check === "install") return code.startsWith("deployment-") && components !== undefined && isInstalled(components);
  if (check === "controller") return summary !== undefined || trouble !== undefined;
  return code === "dial-failing" && measured?.known === true;
}

/** Parts that cannot be read, where problems may stay hidden: one notice for each reason. */
function ofUnknown({ components, measured, examined, trouble, at }: View): Notice[] {
  const often = Object.values({ ...components, metrics: measured }).filter((fact) => fact !== undefined);
  const isAway = often.length > 0 && often.every((fact) => !fact.known && fact.reason.code === "not-read");
  if (trouble !== undefined && isAway) {
    // The head of the page shows the reason.
    const since = at === undefined ? "" : ` The page shows the data of ${new Date(at).toLocaleTimeString()}.`;
    return [later(`Nothing can be read from the cluster.${since} Pods keep their names, and running proxies relay.`)];
  }
  const facts = { ...components, metrics: measured, doctor: examined?.report };
  const unknown = Object.entries(facts).flatMap(([name, fact]) =>
    fact === undefined || fact.known ? [] : [{ name, reason: fact.reason }],
  );
  const status = trouble === undefined || isAbsent(examined?.report) ? [] : [{ name: "status", text: trouble }];
  const parts = [...status, ...unknown.map(({ name, reason }) => ({ name, text: reason.text }))];
  return [...Map.groupBy(parts, ({ text }) => text)].map(([text, same]) =>
    later(`Not known: ${same.map(({ name }) => name).join(", ")} (${text}).`),
  );
}

/** Whether the doctor says that nothing is installed. Then there is no controller with a status. */
function isAbsent(report: NonNullable<View["examined"]>["report"] | undefined): boolean {
  const codes = report?.known ? report.value.findings.map(({ check, code }) => `${check}/${code}`) : [];
  return codes.includes("install/not-installed");
}

function ofMeasured({ upstreams, certificates, rotation, rotationFails }: MeasuredState, now: number): Notice[] {
  const failing = upstreams.filter((each) => each.failing > 0);
  const ending = Object.entries(certificates).filter(([, end]) => end - now / 1_000 < DAY_SECONDS);
  return [
    ...failing.map(({ target, port, good, failing: failed }) =>
      urgent({
        code: "dial-failing",
        text:
          `target ${target}, port ${port}: the last dial failed for ${failed} of ${failed + good} replicas of the ` +
          "proxy",
      }),
    ),
    ...(rotationFails
      ? [later(`Certificates are not maintained (${rotation ?? "unknown"}): the controller's log says why.`)]
      : []),
    ...ending.map(([name, end]) =>
      urgent(
        `The ${name} certificate ${end * 1_000 < now ? "ended" : "ends"} ${new Date(end * 1_000).toLocaleString()}.`,
      ),
    ),
  ];
}

function ofPublisher({ name, problem }: PublisherReport): Notice[] {
  return problem === undefined ? [] : [later({ code: problem.code, text: `publisher ${name}: ${problem.text}` })];
}

function ofSources({ sources }: Summary): Notice[] {
  return sources.flatMap(({ name, problems }) => [
    ...problems.slice(0, MAX_PROBLEMS).map(({ place, code, text }) => later({ code, text: `${place}: ${text}` })),
    ...(problems.length <= MAX_PROBLEMS
      ? []
      : [
          later(
            `The source ${name} has ${problems.length - MAX_PROBLEMS} more problems: switchback status lists them.`,
          ),
        ]),
  ]);
}
