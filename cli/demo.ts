import type { StatusDocument } from "#controller/status.ts";
import type { CliContext } from "./context.ts";
import { runDemo } from "./demo/run.ts";
import { EXAMPLES, withOwnFolder } from "./own-files.ts";
import { table } from "./table.ts";

interface DemoFlags {
  /** Default: the examples. */
  readonly directory: string | undefined;
  readonly keep?: boolean;
  /** Also keeps it running. */
  readonly dashboard?: boolean;
}

/** `switchback demo`: exits when it is done; with `--keep` or `--dashboard`, on Ctrl-C. */
export async function demo({ directory, keep, dashboard }: DemoFlags, { stdout }: CliContext): Promise<void> {
  const interrupted = new Promise<void>((resolve) => process.once("SIGINT", () => resolve()));
  const showStatus = async (status: () => StatusDocument) => {
    const [{ startDashboard }, { dashboardFiles }] = await Promise.all([
      import("#extras/dashboard/server.ts"),
      import("./dashboard-files.ts"),
    ]);
    const source = { place: "the demo on this machine", status: async () => status() };
    const { address, stop } = await startDashboard({ source, files: await dashboardFiles(), port: 0 });
    stdout.line(`Dashboard on ${address}`);
    return stop;
  };
  const options = dashboard ? { keep: true, showStatus } : { ...(keep && { keep }) };
  const show = (from: string) => runDemo({ ...options, directory: from }, { ...stdout, table }, interrupted);
  await (directory === undefined ? withOwnFolder(EXAMPLES, show) : show(directory));
}
