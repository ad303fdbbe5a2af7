import { existsSync, globSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { Unavailable } from "../cluster/binaries.ts";
import { Cluster } from "../cluster/cluster.ts";
import { withLock } from "../cluster/lock.ts";
import { collectLogs } from "../cluster/logs.ts";
import { down } from "../cluster/node/down.ts";
import { LOGS, STATE_FOLDER } from "../cluster/node/layout.ts";
import { NotHere, requireRoot } from "../cluster/node/requirements.ts";
import { importImages, isTemporary } from "../cluster/node/up.ts";
import { withProductImage } from "../cluster/product-image.ts";
import { type Progress, progressLines } from "../cluster/progress.ts";
import { wholeCluster, withMachine } from "../cluster/whole.ts";
import { runFiles } from "../run-files.ts";
import { ANYWHERE, existing, needsOf } from "./where.ts";

// `npm run e2e [-- FILTER...]`: the files of this folder in order, against this machine's cluster. One that was not up is
// brought up before and taken down after, unless --keep is given; one that such a run has left when it was killed goes as well. Where E2E_KUBECONFIG names another cluster (and E2E_IMAGE the image),
// what needs nothing of this machine's node runs there.

const ROOT = join(import.meta.dirname, "..", "..");

const { values, positionals: filters } = parseArgs({
  allowPositionals: true,
  options: { keep: { type: "boolean", default: false }, break: { type: "string", default: "" } },
});
process.env.E2E_BREAK = values.break;

/** Told to stop, a run ends its tests and then clears up as ever. */
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());

try {
  process.exitCode = await main(progressLines());
} catch (error) {
  process.stderr.write(`${isExpected(error) ? error.message : error instanceof Error ? error.stack : error}\n`);
  process.exitCode = 1;
}

/** What the message alone explains. */
function isExpected(error: unknown): error is Error {
  return error instanceof NotHere || error instanceof Unavailable;
}

async function main(progress: Progress): Promise<number> {
  const other = existing(process.env);
  if (other !== undefined) return await onOther(other.cluster, progress);
  requireRoot();
  const waiting = () => progress.status("waiting for another run of the end-to-end tests on this machine");
  return await withLock(`${STATE_FOLDER}.e2e.lock`, () => onOwnNode(progress), waiting);
}

/** What was brought up for this run goes with it, however it ends; what was there stays. */
async function onOwnNode(progress: Progress): Promise<number> {
  try {
    const cluster = await prepare(progress);
    const code = await runTests(testFiles(), progress);
    if (code === 0) progress.say("all passed");
    else await keepLogs(cluster);
    return code;
  } catch (error) {
    if (isExpected(error) || !existsSync(LOGS)) throw error;
    process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
    await keepLogs(new Cluster());
    return 1;
  } finally {
    if (await isTemporary()) {
      await withMachine(progress, down);
      progress.say("the cluster is gone");
    }
  }
}

async function keepLogs(cluster: Cluster): Promise<void> {
  process.stderr.write(`logs of every component and pod: ${await collectLogs(cluster)}\n`);
}

async function onOther(cluster: Cluster, progress: Progress): Promise<number> {
  const files = testFiles();
  const run = files.filter((file) => file.endsWith(ANYWHERE));
  for (const file of files.filter((each) => !run.includes(each))) {
    progress.say(`${file}: not applicable, it needs ${needsOf(basename(file))}`);
  }
  const code = await runTests(run, progress);
  if (code !== 0) process.stderr.write(`logs of every pod: ${await collectLogs(cluster, { components: "" })}\n`);
  const isIncomplete = process.env.CI === "true" && run.length < files.length;
  if (isIncomplete) progress.say("CI=true: a file that does not run is a failed run");
  return code !== 0 || isIncomplete ? 1 : 0;
}

async function prepare(progress: Progress): Promise<Cluster> {
  const { cluster } = await wholeCluster(progress, { temporary: !values.keep });
  progress.say("importing the image of the product");
  await withProductImage((image) => importImages([image], progress));
  return cluster;
}

function testFiles(): string[] {
  return globSync("test/e2e/*.test.ts", { cwd: ROOT })
    .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)))
    .sort();
}

/**
 * One after the other: each file goes on where the one before has left the cluster. Stops at the first that fails, so that the
 * logs are of that moment.
 */
async function runTests(files: string[], progress: Progress): Promise<number> {
  for (const [n, file] of files.entries()) {
    progress.say(`${file} (${n + 1} of ${files.length})`);
    const { failed, skipped } = await runFiles([file], 1, stop.signal);
    const isIncomplete = skipped.length > 0 && process.env.CI === "true";
    if (isIncomplete) progress.say(`CI=true: a skipped test is a failed run: ${skipped.join("; ")}`);
    if (failed === 0 && !isIncomplete && !stop.signal.aborted) continue;
    const left = files.slice(n + 1);
    progress.say(`${file} failed${left.length === 0 ? "" : `; not run: ${left.join(" ")}`}`);
    return 1;
  }
  return 0;
}
