import { runDemo } from "../demo/run.ts";
import type { CliContext } from "./context.ts";
import { EXAMPLES, withOwnFolder } from "./own-files.ts";
import { table } from "./table.ts";

interface DemoFlags {
  /** Default: the examples. */
  readonly directory: string | undefined;
  readonly keep?: boolean;
}

/** `switchback demo`: exits when it is done; with `--keep`, on Ctrl-C. */
export async function demo({ directory, ...flags }: DemoFlags, { stdout }: CliContext): Promise<void> {
  const interrupted = new Promise<void>((resolve) => process.once("SIGINT", () => resolve()));
  const show = (from: string) => runDemo({ ...flags, directory: from }, { ...stdout, table }, interrupted);
  await (directory === undefined ? withOwnFolder(EXAMPLES, show) : show(directory));
}
