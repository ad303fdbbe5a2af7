import { join } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";

const ROOT = join(import.meta.dirname, "..");

export interface Outcome {
  failed: number;
  skipped: string[];
}

/** A file that hangs fails, and the rest still runs. */
const FILE_TIMEOUT_MS = 10 * 60_000;

/** Runs the files as `node --test` does, each in a process of its own, and prints what its spec reporter prints. */
export async function runFiles(files: string[], concurrency: number, signal?: AbortSignal): Promise<Outcome> {
  const outcome: Outcome = { failed: 0, skipped: [] };
  const options = { files, concurrency, cwd: ROOT, timeout: FILE_TIMEOUT_MS, ...(signal && { signal }) };
  const events = run(options);
  const count = (isPass: boolean) => (test: { name: string; skip?: string | boolean; todo?: string | boolean }) => {
    if (test.skip !== undefined || test.todo !== undefined) outcome.skipped.push(test.name);
    else if (!isPass) outcome.failed++;
  };
  events.on("test:fail", count(false));
  events.on("test:pass", count(true));
  for await (const text of events.compose(new spec())) process.stdout.write(text);
  return outcome;
}
