import { join } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";

const ROOT = join(import.meta.dirname, "..");

export interface Outcome {
  /** Each with the first line of its error: the whole stands where the test ran, perhaps far above. */
  failed: string[];
  skipped: string[];
}

/** A file that hangs fails, and the rest still runs. */
const FILE_TIMEOUT_MS = 10 * 60_000;

/** Runs the files as `node --test` does, each in a process of its own, and prints what its spec reporter prints. */
export async function runFiles(files: string[], concurrency: number, signal?: AbortSignal): Promise<Outcome> {
  const outcome: Outcome = { failed: [], skipped: [] };
  const options = { files, concurrency, cwd: ROOT, timeout: FILE_TIMEOUT_MS, ...(signal && { signal }) };
  const events = run(options);
  const isLeftOut = ({ skip, todo }: { skip?: string | boolean; todo?: string | boolean }) =>
    skip !== undefined || todo !== undefined;
  events.on("test:pass", (test) => {
    if (isLeftOut(test)) outcome.skipped.push(test.name);
  });
  events.on("test:fail", (test) => {
    if (isLeftOut(test)) outcome.skipped.push(test.name);
    else outcome.failed.push(`${test.name}: ${firstLine(test.details.error)}`);
  });
  for await (const text of events.compose(new spec())) process.stdout.write(text);
  return outcome;
}

/** What the test threw stands below an error of the runner's own. */
function firstLine({ cause, message }: Error): string {
  const [line = ""] = (cause instanceof Error ? cause.message : message).split("\n", 1);
  return line.slice(0, MAX_LINE);
}

const MAX_LINE = 300;
