import type { Command } from "@commander-js/extra-typings";
import type { FullStatus } from "#controller/status.ts";
import { type PublisherStates, publisherLines, readPublishers } from "#extras/publishers/status.ts";
import { compareNames } from "#hostmap/hostnames.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { CliContext } from "#lib/process/context.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { isStuck } from "#lib/workloads/workload-words.ts";
import {
  type Definition,
  type FlagsOf,
  fromOption,
  namespaceName,
  notEmpty,
  objectsOptions,
  outputOption,
} from "./command.ts";
import { type Report, render } from "./formats.ts";
import { leaderStatus } from "./leader-status.ts";
import { type Selected, statusText } from "./status-text.ts";
import { withClient } from "./with-client.ts";

const SELECTS = "show only this namespace: the names that its objects claim, and its workloads";

function withOptions(command: Command) {
  return objectsOptions(command)
    .addOption(outputOption(command))
    .option("-n, --namespace <name>", SELECTS, namespaceName)
    .addOption(command.createOption("-A, --all-namespaces", "show all namespaces (the default)").conflicts("namespace"))
    .option("--name <pattern>", "only hostnames that match, such as '*.example.com'", notEmpty)
    .option("--refused", "only names that no pod gets")
    .option("--stuck", "only workloads that stay stale until somebody acts")
    .addOption(fromOption(command, "switchbackNamespace"));
}

type StatusFlags = FlagsOf<typeof withOptions>;

/** Defines `switchback status`. */
export function define(command: Command, { context, exit }: Definition): void {
  withOptions(command).action((flags) => exit(status(flags, context)));
}

/**
 * Selects a part of the status. `name` and `refused` filter names, `stuck` filters workloads, `namespace` filters both.
 */
export type StatusFilter = Pick<StatusFlags, "namespace" | "name" | "refused" | "stuck">;

/**
 * Prints names and workloads. @returns the exit code: 1 if a selected workload is stale and stays so until somebody
 * acts.
 */
export async function status(flags: StatusFlags, context: CliContext): Promise<number> {
  const { stdout, stderr } = context;
  const read = await (flags.from === undefined ? readCluster(flags, context) : readFile(flags.from, context));
  const report = statusReport(read, flags);
  stdout.write(await render(flags.output, report));
  const omitted = read.full.running?.omitted ?? 0;
  if (omitted > 0) stderr.line(`not shown: ${omitted} workloads; see -n, --name, --refused and --stuck`);
  return report.isStuck ? 1 : 0;
}

interface ReadStatus {
  readonly full: FullStatus;
  readonly publishers?: PublisherStates;
  /** The time that the status is of, milliseconds since 1970. */
  readonly now: number;
}

async function readCluster(flags: StatusFlags, context: CliContext): Promise<ReadStatus> {
  const read = withClient("status", flags, context, async (client) => {
    const query = { installedIn: flags.switchbackNamespace, of: flags.namespace };
    const { namespace, full } = await leaderStatus(client, query);
    return { full, publishers: await readPublishers(client, namespace), now: Date.now() };
  });
  return await context.progress.during("reading the controller's status", () => read);
}

/** The status that a controller would have in the cluster of a file. */
async function readFile(file: string, context: CliContext): Promise<ReadStatus> {
  const { openClusterFile } = await import("./dump/read-file.ts");
  const { statusOfFile } = await import("./dump/status-of-file.ts");
  const cluster = await openClusterFile(file, context);
  // The status says what the file does not have.
  const publishers = await readPublishers(cluster.client, cluster.head.namespace).catch(() => ({}));
  return { full: await statusOfFile(cluster), publishers, now: cluster.time };
}

/**
 * The status in all formats. Throws `kube-unreachable` if only stuck workloads are requested while the workloads are
 * unknown: for a script, an empty answer would mean that all is well.
 */
export function statusReport(
  { full, publishers = {}, now }: ReadStatus,
  filter: StatusFilter,
): Report & { readonly isStuck: boolean } {
  const { running } = full;
  const unknown = running === undefined ? "no controller is the leader at the moment" : running.unknown;
  if (filter.stuck && unknown !== undefined) {
    throw new SwitchbackError("kube-unreachable", `the state of workloads is unknown: ${unknown}`);
  }
  const selected = selectStatus(full, filter);
  const { names, workloads } = selected;
  return {
    // The formats leave out what is undefined: a list that was not requested is absent, not empty.
    document: {
      ...full,
      names,
      running: running && { ...running, workloads },
      publishers: Object.keys(publishers).length > 0 ? publishers : undefined,
    },
    names: [...(names ?? []).map(({ name }) => name), ...(workloads ?? []).map(workloadKey)],
    text: statusText(full, selected, publisherLines(publishers, now)),
    isStuck: (workloads ?? []).some(isStuck),
  };
}

/**
 * Selects names and workloads. A filter for one of the two leaves out the other, unless that has a filter too.
 * Problems come first: names that no pod gets, and workloads that are stuck.
 */
function selectStatus({ targets, names, running }: FullStatus, filter: StatusFilter): Selected {
  const { namespace, name: pattern, refused, stuck } = filter;
  const ofNames = pattern !== undefined || refused === true;
  const ofWorkloads = stuck === true;
  const isHere = (object: { readonly namespace: string }) => namespace === undefined || object.namespace === namespace;
  const matches = globOf(pattern ?? "*");
  const foundNames = () =>
    names
      .filter(({ name, from, reason }) => isHere(from) && matches.test(name) && (!refused || reason !== undefined))
      .sort(firstBy(({ name, reason, warning }) => [name, reason !== undefined, warning !== undefined]));
  const foundWorkloads = () =>
    running?.workloads
      .filter((each) => isHere(each) && (!stuck || isStuck(each)))
      .sort(firstBy((each) => [workloadKey(each), isStuck(each), each.stale > 0]));
  return {
    targets: ofNames || ofWorkloads || namespace !== undefined ? [] : targets,
    names: ofNames || !ofWorkloads ? foundNames() : undefined,
    workloads: ofWorkloads || !ofNames ? foundWorkloads() : undefined,
  };
}

/** The order by problems, the worst first, and then by key. */
function firstBy<T>(keyOf: (one: T) => readonly [key: string, ...problems: boolean[]]) {
  const rankOf = (problems: readonly boolean[]) => [...problems, true].indexOf(true);
  return (one: T, other: T) => {
    const [[key, ...problems], [otherKey, ...others]] = [keyOf(one), keyOf(other)];
    return rankOf(problems) - rankOf(others) || compareNames(key, otherKey);
  };
}

/** Matches whole hostnames, ignoring case. Only `*` is special. */
function globOf(pattern: string): RegExp {
  return new RegExp(`^${pattern.replace(/[^\w*-]/g, "\\$&").replace(/\*+/g, ".*")}$`, "is");
}
