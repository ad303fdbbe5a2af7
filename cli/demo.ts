import type { DemoPage } from "#extras/extension-points.ts";
import type { CliContext } from "#lib/process/context.ts";
import { runDemo } from "./demo/run.ts";
import { EXAMPLES, hasOwnFile, hasOwnFolder, ownFile, ownFolder } from "./own-files.ts";
import { table } from "./table.ts";

interface DemoOptions {
  /** Undefined: the examples. */
  readonly directory: string | undefined;
  readonly keep?: boolean | undefined;
  /** The page that shows the status while the demo runs. With a page, the demo keeps running. */
  readonly page?: DemoPage | undefined;
}

/** `switchback demo`: exits when it is done, or on Ctrl-C if it keeps running. */
export async function demo({ directory, keep, page }: DemoOptions, { stdout }: CliContext): Promise<void> {
  const interrupted = new Promise<void>((resolve) => process.once("SIGINT", () => resolve()));
  const ownFiles = { ownFile, hasOwnFile, hasOwnFolder };
  const options =
    page === undefined
      ? { ...(keep && { keep }) }
      : {
          keep: true,
          showLive: (shown: Pick<Parameters<DemoPage["show"]>[0], "status" | "metrics">) =>
            page.show({ ...shown, ownFiles, say: stdout.line }),
        };
  await runDemo({ ...options, directory: directory ?? ownFolder(EXAMPLES) }, { ...stdout, table }, interrupted);
}
