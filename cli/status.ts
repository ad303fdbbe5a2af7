import type { Command } from "@commander-js/extra-typings";
import type { FullStatus } from "#controller/status.ts";
import { type PublisherStates, publisherLines, readPublishers } from "#extras/publishers/status.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { isStuck } from "#lib/workloads/workload-words.ts";
import { type Definition, fromOption, namespaceName, notEmpty, objectsOptions, outputOption } from "./command.ts";
import { type Format, type Report, render } from "./formats.ts";
import { installedIn, leaderStatus } from "./leader-status.ts";
import { type StatusFilter, selectedDocument, selectStatus } from "./status-filter.ts";
import { statusText } from "./status-text.ts";
import { withUnwatched } from "./unwatched-pods.ts";

/** Defines `switchback status`. */
export function define(command: Command, { context, exit }: Definition): void {
  objectsOptions(command)
    .addOption(outputOption(command))
    .option("-n, --namespace <name>", "only names from objects of this namespace, and its workloads", namespaceName)
    .addOption(
      command
        .createOption("-A, --all-namespaces", "names and workloads of all namespaces (the default)")
        .conflicts("namespace"),
    )
    .option("--name <pattern>", "only hostnames that match, such as '*.example.com'", notEmpty)
    .option("--refused", "only names that no pod gets")
    .option("--stuck", "only workloads that stay stale until somebody acts")
    .addOption(fromOption(command, "switchbackNamespace"))
    .action((flags) => exit(status(flags, context)));
}

interface StatusFlags extends StatusFilter, ConnectFlags {
  readonly switchbackNamespace?: string | undefined;
  readonly output: Format;
  /** Path of a file to read instead of a cluster; `-` for standard input. */
  readonly from?: string | undefined;
}

/**
 * Prints names and workloads. @returns the exit code: 1 if a selected workload is stale and stays so until somebody
 * acts.
 */
export async function status(flags: StatusFlags, context: CliContext): Promise<number> {
  const { stdout, stderr } = context;
  const { full, now } = await (flags.from === undefined ? readCluster(flags, context) : readFile(flags.from, context));
  const report = statusReport(full, flags, now);
  stdout.write(await render(flags.output, report));
  const omitted = full.running?.omitted ?? 0;
  if (omitted > 0) stderr.line(`not shown: ${omitted} workloads; see -n, --name, --refused and --stuck`);
  return report.isStuck ? 1 : 0;
}

/** The controller's status, and the reports of the publishers. */
type WholeStatus = FullStatus & { readonly publishers?: PublisherStates };

interface ReadStatus {
  readonly full: WholeStatus;
  /** The time that the status is of, milliseconds since 1970. */
  readonly now: number;
}

async function readCluster(flags: StatusFlags, { env, progress }: CliContext): Promise<ReadStatus> {
  const client = await connect(connectOptionsFrom(env, flags));
  const read = async (): Promise<WholeStatus> => {
    const ours = await installedIn(client, flags.switchbackNamespace);
    const [full, publishers] = await Promise.all([
      leaderStatus(client, ours, { in: flags.namespace }),
      readPublishers(client, ours),
    ]);
    const { namespace } = flags;
    return { ...(namespace === undefined ? full : await withUnwatched(client, full, namespace)), publishers };
  };
  try {
    return { full: await progress.during("reading the controller's status", read), now: Date.now() };
  } finally {
    client.close();
  }
}

/** The status that a controller would have in the cluster of a file. */
async function readFile(file: string, { stderr, progress }: CliContext): Promise<ReadStatus> {
  const [{ readClusterFile }, { statusOfFile }] = await Promise.all([
    import("./dump/read-file.ts"),
    import("./dump/status-of-file.ts"),
  ]);
  const cluster = await progress.during(`reading ${file}`, () => readClusterFile(file));
  for (const line of cluster.leftOut) stderr.line(line);
  // The status says what the file does not have.
  const publishers = await readPublishers(cluster.client, cluster.head.namespace).catch(() => ({}));
  return { full: { ...(await statusOfFile(cluster)), publishers }, now: cluster.time };
}

/**
 * The status in all formats. Ages are relative to `now`, milliseconds since 1970. Throws `kube-unreachable` if only
 * stuck workloads are requested while the workloads are unknown: for a script, an empty answer would mean that all is
 * well.
 */
export function statusReport(
  { publishers = {}, ...full }: WholeStatus,
  filter: StatusFilter,
  now = Date.now(),
): Report & { readonly isStuck: boolean } {
  const unknown = full.running === undefined ? "no controller is the leader at the moment" : full.running.unknown;
  if (filter.stuck && unknown !== undefined) {
    throw new SwitchbackError("kube-unreachable", `the state of workloads is unknown: ${unknown}`);
  }
  const selected = selectStatus(full, filter);
  return {
    document: { ...selectedDocument(full, selected), ...(Object.keys(publishers).length > 0 && { publishers }) },
    names: [...(selected.names ?? []).map(({ name }) => name), ...(selected.workloads ?? []).map(workloadKey)],
    text: (wide) => statusText(full, selected, wide, publisherLines(publishers, now)),
    isStuck: (selected.workloads ?? []).some(isStuck),
  };
}
