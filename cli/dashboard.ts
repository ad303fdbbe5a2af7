import type { FullStatus } from "#controller/status.ts";
import { examine } from "#doctor/checks.ts";
import { gather } from "#doctor/gather.ts";
import { reportDocument } from "#doctor/report.ts";
import { readComponents, readMetrics } from "#extras/dashboard/cluster.ts";
import { startDashboard } from "#extras/dashboard/server.ts";
import type { DashboardSource } from "#extras/dashboard/source.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import { connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext } from "./context.ts";
import { dashboardFiles } from "./dashboard-files.ts";
import { leaderStatus } from "./leader-status.ts";
import { cureOfRefusal } from "./missing-rights.ts";
import { openInBrowser } from "./open-browser.ts";

interface DashboardFlags {
  readonly namespace: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly port?: number;
  /** Print the address only. */
  readonly open: boolean;
}

/** Serves a page about the cluster on this machine until Ctrl-C. Only reads; the doctor creates its dry-run pod, which is never stored. */
export async function dashboard(flags: DashboardFlags, { env, stdout, stderr, progress }: CliContext): Promise<void> {
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: "switchback-dashboard" });
  const { namespace, port = 0 } = flags;
  let last: FullStatus | undefined;
  const source: DashboardSource = {
    place: client.server,
    status: async (signal) => {
      try {
        last = await leaderStatus(client, namespace, { all: true, observedWithinMs: 0 }, signal);
        return last;
      } catch (error) {
        const cure = cureOfRefusal(error, { command: "dashboard", namespace });
        throw cure === undefined ? error : new SwitchbackError("kube-status", `${describeError(error)}; ${cure}`);
      }
    },
    components: () => readComponents(client, namespace, last),
    metrics: () => readMetrics(client, namespace),
    doctor: async () =>
      reportDocument(examine(await gather({ client, namespace, probeNamespace: "default", now: Date.now }))),
  };
  try {
    const files = await progress.during("preparing the page", dashboardFiles);
    const running = await startDashboard({ source, files, port });
    const stopped = untilInterrupted();
    stdout.line(running.address);
    stderr.line("Whoever has this address sees what you may see. Ctrl-C ends it.");
    const opened = flags.open && stdout.columns !== undefined ? await openInBrowser(running.address, env) : undefined;
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
