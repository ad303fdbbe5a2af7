import type { Output } from "./output.ts";
import type { Progress } from "./progress.ts";

/** The environment and outputs of a command. Only `cli/main.ts` reads the process' own. */
export interface CliContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly progress: Progress;
}
