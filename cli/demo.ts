import type { CliContext } from "#lib/process/context.ts";
import { runDemo } from "./demo/run.ts";
import { EXAMPLES, hasOwnFile, hasOwnFolder, ownFile, ownFolder } from "./own-files.ts";
import { table } from "./table.ts";

interface DemoOptions {
  /** Undefined: the examples. */
  readonly directory: string | undefined;
  readonly keep?: boolean | undefined;
  /** Whether the dashboard shows the status while the demo runs. With it, the demo keeps running. */
  readonly dashboard?: boolean | undefined;
}

/** `switchback demo`: exits when it is done, or on Ctrl-C if it keeps running. */
export async function demo({ directory, keep, dashboard }: DemoOptions, { stdout }: CliContext): Promise<void> {
  const interrupted = new Promise<void>((resolve) => process.once("SIGINT", () => resolve()));
  const options = dashboard ? { keep: true, showLive: await pageOf(stdout.line) } : { ...(keep && { keep }) };
  await runDemo({ ...options, directory: directory ?? ownFolder(EXAMPLES) }, { ...stdout, table }, interrupted);
}

async function pageOf(say: (line: string) => void) {
  const { showDemo } = await import("#extras/dashboard/server/demo-page.ts");
  type Shown = Pick<Parameters<typeof showDemo>[0], "status" | "metrics">;
  return (shown: Shown) => showDemo({ ...shown, ownFiles: { ownFile, hasOwnFile, hasOwnFolder }, say });
}
