import type { FullStatus } from "#controller/status.ts";
import { type PublisherStates, publisherLines, readPublishers } from "#extras/publishers/status.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import { pause } from "#lib/kube/time.ts";
import type { CliContext } from "#lib/process/context.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { isStuck } from "#lib/workloads/workload-words.ts";
import { type Format, type Report, render, type Screen } from "./formats.ts";
import { leaderStatus } from "./leader-status.ts";
import { type StatusFilter, selectedDocument, selectStatus } from "./status-filter.ts";
import { statusText } from "./status-text.ts";
import { withUnwatched } from "./unwatched-pods.ts";

interface StatusFlags extends StatusFilter, ConnectFlags {
  readonly namespace: string;
  readonly output: Format;
  readonly watch?: boolean;
  /** Whether to print every row. */
  readonly all?: boolean;
  /** Path of a dump to read instead of a cluster; `-` for standard input. */
  readonly from?: string;
}

const WATCH_MS = 2_000;
/** Rows to print per table on a terminal: more than a screen, but not too many to read. */
const MAX_ROWS = 100;

/**
 * Prints names and workloads. @returns the exit code: 1 if a selected workload is stale and stays so until somebody
 * acts.
 */
export async function status(flags: StatusFlags, context: CliContext): Promise<number> {
  const { env, stdout, stderr, progress } = context;
  if (flags.from !== undefined) return await statusFrom(flags.from, flags, context);
  const client = await connect(connectOptionsFrom(env, flags));
  const columns = stdout.columns;
  const wanted = { in: flags.in };
  const withPublishers = async (status: Promise<FullStatus>, signal?: AbortSignal): Promise<WholeStatus> => {
    const [full, publishers] = await Promise.all([status, readPublishers(client, flags.namespace, signal)]);
    return { ...(flags.in === undefined ? full : await withUnwatched(client, full, flags.in)), publishers };
  };
  const read = (signal: AbortSignal) => withPublishers(leaderStatus(client, flags.namespace, wanted, signal), signal);
  const show = async (full: WholeStatus): Promise<Shown> => {
    const report = statusReport(full, flags, columns);
    return { ...(await render(flags.output, report)), isStuck: report.isStuck };
  };
  const print = (shown: Shown, separator = "") => {
    stdout.write(`${separator}${shown.text}`);
    for (const note of shown.notes ?? []) stderr.line(note);
  };
  try {
    const first = await show(
      await progress.during("reading the controller's status", () =>
        withPublishers(leaderStatus(client, flags.namespace, wanted)),
      ),
    );
    // Listens before anything is printed: a user may press Ctrl-C at once.
    const ended = flags.watch ? AbortSignal.any([untilInterrupted().signal, stdout.closed]) : undefined;
    print(first);
    const options = { read, show, print, failed: stderr.line };
    const last = ended === undefined ? first : await watchStatus(first, ended, options);
    return last?.isStuck === false ? 0 : 1;
  } finally {
    client.close();
  }
}

/** Prints the status that a controller would have in the cluster of a dump. */
async function statusFrom(file: string, flags: StatusFlags, { stdout, stderr, progress }: CliContext): Promise<number> {
  const [{ readDump }, { statusOfDump }] = await Promise.all([
    import("./dump/read-dump.ts"),
    import("./dump/status-of-dump.ts"),
  ]);
  const dump = await progress.during(`reading ${file}`, () => readDump(file));
  for (const line of dump.leftOut) stderr.line(line);
  const publishers = await readPublishers(dump.client, dump.head.namespace);
  const full = { ...(await statusOfDump(dump)), publishers };
  const report = statusReport(full, flags, stdout.columns, dump.time);
  const { text, notes = [] } = await render(flags.output, report);
  stdout.write(text);
  for (const note of notes) stderr.line(note);
  return report.isStuck ? 1 : 0;
}

/**
 * The status in all formats. `columns` is the width of the terminal; without it nothing is left out, shortened or
 * wrapped. Ages are relative to `now`, milliseconds since 1970. Throws `kube-unreachable` if only stuck workloads are
 * requested while the workloads are unknown: for a script, an empty answer would mean that all is well.
 */
export function statusReport(
  { publishers = {}, ...full }: WholeStatus,
  flags: StatusFilter & { readonly all?: boolean },
  columns: number | undefined,
  now = Date.now(),
): Report & { readonly isStuck: boolean } {
  const unknown = full.running === undefined ? "no controller is the leader at the moment" : full.running.unknown;
  if (flags.stuck && unknown !== undefined) {
    throw new SwitchbackError("kube-unreachable", `the state of workloads is unknown: ${unknown}`);
  }
  const selected = selectStatus(full, flags);
  const maxRows = flags.all || columns === undefined ? Number.POSITIVE_INFINITY : MAX_ROWS;
  return {
    document: { ...selectedDocument(full, selected), ...(Object.keys(publishers).length > 0 && { publishers }) },
    names: [...(selected.names ?? []).map(({ name }) => name), ...(selected.workloads ?? []).map(workloadKey)],
    text: (wide) => {
      const lines = publisherLines(publishers, now);
      return statusText(full, selected, { wide, columns, maxRows }, lines);
    },
    isStuck: (selected.workloads ?? []).some(isStuck),
  };
}

/** The controller's status, and the reports of the publishers. */
type WholeStatus = FullStatus & { readonly publishers?: PublisherStates };

interface Shown extends Screen {
  readonly isStuck: boolean;
}

interface WatchOptions {
  readonly read: (signal: AbortSignal) => Promise<WholeStatus>;
  readonly show: (full: WholeStatus) => Promise<Shown>;
  readonly print: (shown: Shown, separator: string) => void;
  readonly failed: (line: string) => void;
}

/**
 * Prints the status whenever it changes, until `signal` aborts: on Ctrl-C, or when the output is closed. After the
 * first successful read, every failure is retried: the leader may be changing, or the API server be unavailable.
 * @returns the last status; undefined if the last read failed.
 */
async function watchStatus(first: Shown, signal: AbortSignal, options: WatchOptions): Promise<Shown | undefined> {
  const { read, show, print, failed } = options;
  let last: Shown | string = first;
  for (;;) {
    await pause(WATCH_MS, signal);
    const now: Shown | string = await read(signal).then(show).catch(describeError);
    if (signal.aborted) return typeof last === "string" ? undefined : last;
    if (typeof now === "string" && now !== last) failed(`status unknown: ${now}; retrying`);
    if (typeof now !== "string" && (typeof last === "string" || now.text !== last.text)) print(now, "\n");
    last = now;
  }
}

function untilInterrupted(): AbortController {
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => interrupted.abort());
  return interrupted;
}
