import { checkComponents, checkDeployment, isComponent } from "#doctor/checks/deployments.ts";
import type { Reason } from "#hostmap/types.ts";
import { isStuck } from "#lib/workloads/workload-words.ts";
import type { Components, MeasuredState, Summary } from "../server/messages.ts";
import type { PublisherReport } from "../server/publishers.ts";
import type { View } from "./state.ts";

/** A problem that somebody has to look at. */
interface Notice {
  /** Connections fail, pods start without names, or names are about to go; otherwise it can wait. */
  readonly urgent: boolean;
  /** A sentence, or a reason whose code has a remedy. */
  readonly what: string | Reason;
}

const urgent = (what: Notice["what"]): Notice => ({ urgent: true, what });
const later = (what: Notice["what"]): Notice => ({ urgent: false, what });

const DAY_SECONDS = 86_400;
/** Of a source: a tenant can write any number of objects that cannot be read. */
const MAX_PROBLEMS = 10;

/** The problems that are known, the most urgent first. `now`: milliseconds since 1970. Pure. */
export function noticesOf(view: View, now: number): Notice[] {
  const { summary, components, measured, workloads } = view;
  const stuck = workloads.filter(isStuck).length;
  const notices = [
    ...(summary === undefined ? [] : ofController(summary)),
    ...(components === undefined ? [] : ofComponents(components)),
    ...(measured?.known ? ofMeasured(measured.value, now) : []),
    ...ofUnknown(view),
    ...(summary === undefined ? [] : [...ofSources(summary), ...summary.warnings.map(later)]),
    ...(components?.publishers.known ? components.publishers.value.flatMap(ofPublisher) : []),
    ...(stuck === 0 ? [] : [later(`${behind(stuck)} until somebody acts: the view Workloads says why.`)]),
    ...(summary?.running?.unknown === undefined
      ? []
      : [later(`The state of pods is not known: ${summary.running.unknown}`)]),
  ];
  return [...notices.filter((notice) => notice.urgent), ...notices.filter((notice) => !notice.urgent)];
}

const behind = (workloads: number) =>
  workloads === 1 ? "1 workload stays behind" : `${workloads} workloads stay behind`;

function ofController({ leader, revision, hold }: Summary): Notice[] {
  return [
    ...(hold === undefined
      ? []
      : [
          urgent(
            `The removal of ${hold.names} of ${hold.of} names is held until ` +
              `${new Date(hold.until).toLocaleString()}: look why they vanish; switchback confirm removes them now.`,
          ),
        ]),
    ...(leader
      ? []
      : [later("No controller is the leader: the state of workloads is not known, and nothing is published.")]),
    ...(leader && revision === undefined
      ? [
          later(
            "The leader has not published a map yet, as in its first seconds: what was published before stays in use.",
          ),
        ]
      : []),
  ];
}

/** As the doctor finds them: one that is missing or scaled to 0 is as bad as one that fails. */
function ofComponents({ deployments }: Components): Notice[] {
  if (!deployments.known) return [];
  const needed = checkComponents(deployments.value, (name) => name);
  const others = deployments.value.filter(({ name, desired }) => !isComponent(name) && desired > 0);
  const findings = [...needed, ...others.map((one) => checkDeployment(one.name, one, "what it does stands still"))];
  return findings
    .filter(({ status }) => status !== "ok")
    .map(({ status, code, subject, evidence }) => ({
      urgent: status === "broken",
      what: { code, text: `${subject}: ${evidence}` },
    }));
}

/** What may be wrong without being seen here. */
function ofUnknown({ components, measured }: View): Notice[] {
  const facts = { ...components, metrics: measured };
  const unknown = Object.entries(facts).flatMap(([name, fact]) =>
    fact === undefined || fact.known ? [] : [{ name, text: fact.reason.text }],
  );
  return [...Map.groupBy(unknown, ({ text }) => text)].map(([text, parts]) =>
    later(`Not known: ${parts.map(({ name }) => name).join(", ")} (${text}).`),
  );
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
  return [
    ...sources
      .filter(({ synced }) => !synced)
      .map(({ name }) => later(`The source ${name} is not read yet: what it has is not known.`)),
    ...sources.flatMap(({ name, problems }) => [
      ...problems.slice(0, MAX_PROBLEMS).map(({ place, code, text }) => later({ code, text: `${place}: ${text}` })),
      ...(problems.length <= MAX_PROBLEMS
        ? []
        : [
            later(
              `The source ${name} has ${problems.length - MAX_PROBLEMS} more problems: switchback status lists them.`,
            ),
          ]),
    ]),
  ];
}
