import { spawn } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { Unavailable } from "../cluster/binaries.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { collectLogs } from "../cluster/logs.ts";
import { down } from "../cluster/node/down.ts";
import { LOGS } from "../cluster/node/layout.ts";
import { NotHere } from "../cluster/node/requirements.ts";
import { importImages } from "../cluster/node/up.ts";
import { withProductImage } from "../cluster/product-image.ts";
import { type Progress, progressLines } from "../cluster/progress.ts";
import { wholeCluster, withMachine } from "../cluster/whole.ts";
import { ANYWHERE, existing, needsOf } from "./where.ts";

// `npm run e2e [-- FILTER...]`: the files of this folder in order, against this machine's cluster. One that was not up is
// brought up before and taken down after, unless --keep is given. Where E2E_KUBECONFIG names another cluster (and E2E_IMAGE the image),
// what needs nothing of this machine's node runs there.

const ROOT = join(import.meta.dirname, "..", "..");

const { values, positionals: filters } = parseArgs({
  allowPositionals: true,
  options: { keep: { type: "boolean", default: false }, break: { type: "string", default: "" } },
});
const { keep } = values;

try {
  process.exitCode = await main(progressLines());
} catch (error) {
  const expected = error instanceof NotHere || error instanceof Unavailable;
  process.stderr.write(`${expected ? error.message : error instanceof Error ? error.stack : error}\n`);
  if (!expected && existsSync(LOGS)) process.stderr.write(`the logs of the components are in ${LOGS}\n`);
  process.exitCode = 1;
}

async function main(progress: Progress): Promise<number> {
  const other = existing(process.env);
  if (other !== undefined) return await onOther(other.cluster, progress);
  const { cluster, fresh } = await prepare(progress);
  const code = await runTests(testFiles(), progress);
  const logs = code === 0 ? undefined : await collectLogs(cluster);
  if (code === 0) progress.say("all passed");
  if (fresh && !keep) {
    await withMachine(progress, down);
    progress.say("the cluster is gone");
  }
  if (logs !== undefined) process.stderr.write(`logs of every component and pod: ${logs}\n`);
  return code;
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

async function prepare(progress: Progress): Promise<{ cluster: Cluster; fresh: boolean }> {
  const prepared = await wholeCluster(progress);
  progress.say("importing the image of the product");
  await withProductImage((image) => importImages([image], progress));
  return prepared;
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
    const code = await runFile(file);
    if (code === 0) continue;
    const left = files.slice(n + 1);
    progress.say(`${file} failed${left.length === 0 ? "" : `; not run: ${left.join(" ")}`}`);
    return code;
  }
  return 0;
}

async function runFile(file: string): Promise<number> {
  const child = spawn(process.execPath, ["--test", "--test-reporter=spec", file], {
    cwd: ROOT,
    stdio: "inherit",
    env: { ...process.env, E2E_BREAK: values.break },
  });
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });
}
