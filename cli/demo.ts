import { type DemoOptions, runDemo } from "../demo/run.ts";
import type { CliContext } from "./context.ts";
import { table } from "./table.ts";

/** `switchback demo`: exits when it is done; with `--keep`, on Ctrl-C. */
export async function demo(options: DemoOptions, { stdout }: CliContext): Promise<void> {
  const interrupted = new Promise<void>((resolve) => process.once("SIGINT", () => resolve()));
  await runDemo(options, { print: (text) => stdout.write(text), table }, interrupted);
}
