import type { FullStatus } from "#controller/status.ts";
import type { AddedChecks } from "#doctor/added-checks.ts";
import { examine } from "#doctor/checks.ts";
import { gather } from "#doctor/gather.ts";
import { reportDocument } from "#doctor/report.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { readComponents, readMetrics } from "./cluster.ts";
import { dashboardFiles, type OwnFiles } from "./dashboard-files.ts";
import { openInBrowser } from "./open-browser.ts";
import { startDashboard } from "./server.ts";
import type { DashboardSource } from "./source.ts";

interface DashboardFlags extends ConnectFlags {
  readonly namespace: string;
  readonly port?: number;
  /** False if the command only prints the address. */
  readonly open: boolean;
}

/** What the command line gives to this command. */
interface CommandLine {
  readonly context: CliContext;
  readonly ownFiles: OwnFiles;
  /** Reads the whole status of the leading controller, with the workloads that it has observed so far. */
  leaderStatus(client: KubeClient, namespace: string, signal: AbortSignal): Promise<FullStatus>;
  /** What the extras add to the diagnosis. */
  addedChecks(): Promise<AddedChecks>;
  /** What to do about an error that the API server returned for missing credentials or rights. */
  cureOfRefusal(error: unknown, invoked: { readonly command: string; readonly namespace: string }): string | undefined;
}

/**
 * Serves a page about the cluster on this machine until Ctrl-C. Only reads from the cluster. The doctor creates its
 * pod as a dry run, which is never stored.
 */
export async function serveDashboard(flags: DashboardFlags, line: CommandLine): Promise<void> {
  const { env, stdout, stderr, progress } = line.context;
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: "switchback-dashboard" });
  const { namespace, port = 0 } = flags;
  let last: FullStatus | undefined;
  const source: DashboardSource = {
    place: client.context === undefined ? client.server : `${client.context} (${client.server})`,
    status: async (signal) => {
      try {
        last = await line.leaderStatus(client, namespace, signal);
        return last;
      } catch (error) {
        const cure = line.cureOfRefusal(error, { command: "dashboard", namespace });
        throw cure === undefined ? error : new SwitchbackError("kube-status", `${describeError(error)}; ${cure}`);
      }
    },
    components: async () => readComponents(client, namespace, await line.addedChecks(), last),
    metrics: () => readMetrics(client, namespace),
    doctor: async () => {
      const added = await line.addedChecks();
      return reportDocument(
        examine(await gather({ client, namespace, probeNamespace: "default", now: Date.now, added })),
      );
    },
  };
  try {
    const files = await progress.during("preparing the page", () => dashboardFiles(line.ownFiles));
    const running = await startDashboard({ source, files, port });
    const stopped = untilInterrupted();
    stdout.line(running.address);
    stderr.line("Anyone with this address can see what you may see. Press Ctrl-C to stop.");
    const opened = flags.open && stdout.isTerminal ? await openInBrowser(running.address, env) : undefined;
    await stopped;
    await opened?.remove();
    await running.stop();
  } finally {
    client.close();
  }
}

function untilInterrupted(): Promise<void> {
  return new Promise((resolve) => {
    for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => resolve());
  });
}
