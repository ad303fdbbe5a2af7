import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { binaries } from "../cluster/binaries.ts";
import { Cluster } from "../cluster/cluster.ts";
import { withProductImage } from "../cluster/images.ts";
import { withLock } from "../cluster/lock.ts";
import { collectLogs } from "../cluster/logs.ts";
import { down } from "../cluster/node/down.ts";
import { LOGS, STACK, STATE_FOLDER, TWO_NODES } from "../cluster/node/layout.ts";
import { requireRoot } from "../cluster/node/requirements.ts";
import { enforcesNetworkPolicies, hasLayout, importImages } from "../cluster/node/up.ts";
import { NotHere } from "../cluster/not-here.ts";
import { elapsed, type Progress, progressLines } from "../cluster/progress.ts";
import { isAsWanted, wholeCluster, withMachine } from "../cluster/whole.ts";
import { testFiles } from "../files.ts";
import { runFiles } from "../run-files.ts";
import { chooseVersions, VERSION_OPTIONS } from "../versions.ts";
import { onArm64 } from "./arm64.ts";
import { leftOut, type Need, programsFor } from "./needs.ts";

// `npm run e2e [-- FILTER...]`: runs the files of this folder, and of each extra's folder `e2e`, in the order of their
// numbers, on this machine's cluster. If the cluster is not up, the run starts it, and takes it down at the end. It
// names each file whose needs it does not meet (needs.ts).
// --keep: the cluster stays.
// --dual-stack, --ipv6: uses a cluster with both families, or with only IPv6.
// --nodes 2: uses a cluster of two nodes, and runs only the files about two nodes.
// --kubernetes 1.34: uses this version of Kubernetes.
// --all: also runs the files that take long. Then it runs the usual files again on a cluster that enforces
// NetworkPolicies, with the chart's policies.
// --arm64: needs no cluster (arm64.ts).

const USAGE =
  "usage: npm run e2e -- [--all | --arm64 | --dual-stack | --ipv6 | --nodes 2] [--kubernetes MINOR] [--keep] " +
  "[FILTER...]";

/** After a signal, a run ends its tests and then cleans up as usual. */
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());

try {
  process.exitCode = await main(process.argv.slice(2), progressLines());
} catch (error) {
  process.stderr.write(`${isExpected(error) ? error.message : error instanceof Error ? error.stack : error}\n`);
  process.exitCode = 1;
}
// Ends even if a file has left something open.
process.exit();

/** Whether the error's message is enough, without a stack. */
function isExpected(error: unknown): error is Error {
  return error instanceof NotHere;
}

async function main(args: string[], progress: Progress): Promise<number> {
  const { all, arm64, keep, kubernetes, filters } = readArguments(args);
  const objection = chooseVersions({ kubernetes });
  if (objection !== undefined) throw new NotHere(objection);
  if (arm64) return await onArm64(progress);
  const files = testFiles("e2e", filters);
  if (files.length === 0) throw new NotHere(`no end-to-end test has ${filters.join(" or ")} in its path`);
  if (all && (STACK !== "ipv4" || TWO_NODES))
    throw new NotHere("--all: works only on an IPv4-only cluster with one node");
  requireRoot();
  const waiting = () => progress.status("waiting for another run of the end-to-end tests on this machine");
  return await withLock(`${STATE_FOLDER}.e2e.lock`, () => onOwnNode(files, { all, keep }, progress), waiting);
}

/** @throws NotHere with the usage */
function readArguments(args: string[]) {
  const flag = { type: "boolean", default: false } as const;
  // layout.ts reads the options for families and nodes; here they are only accepted.
  const layout = { "dual-stack": flag, ipv6: flag, nodes: { type: "string", default: "1" } } as const;
  const own = { all: flag, arm64: flag, keep: flag } as const;
  const options = { ...layout, ...own, kubernetes: VERSION_OPTIONS.kubernetes };
  try {
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options });
    if (["1", "2"].includes(values.nodes)) return { ...values, filters: positionals };
  } catch {
    // An unknown option.
  }
  throw new NotHere(USAGE);
}

/** The files that run if these needs are met. Says why each other file does not run. @throws NotHere if none runs */
function chosen(files: string[], met: readonly Need[], progress: Progress): string[] {
  const run = files.filter((file) => {
    const reason = leftOut(file, met);
    if (reason !== undefined) progress.say(`${file}: not run, ${reason}`);
    return reason === undefined;
  });
  if (run.length === 0) throw new NotHere("no file runs");
  return run;
}

/** Runs the files on this machine's cluster: once, or with `all` without and with enforced NetworkPolicies. */
async function onOwnNode(files: string[], { all, keep }: { all: boolean; keep: boolean }, progress: Progress) {
  const isEnforced = (await hasLayout()) && (await enforcesNetworkPolicies());
  const rounds: Need[][] = all ? [["long"], ["network-policies"]] : isEnforced ? [["network-policies"]] : [[]];
  const run = chosen(files, rounds.flat(), progress);
  for (const round of rounds) {
    const fit = run.filter((file) => leftOut(file, round) === undefined);
    const level = { keep, networkPolicies: round.includes("network-policies") };
    const code = fit.length === 0 ? 0 : await onCluster(fit, level, progress);
    if (code !== 0) return code;
  }
  return 0;
}

interface Level {
  readonly keep: boolean;
  /** Whether the cluster must enforce NetworkPolicies. */
  readonly networkPolicies: boolean;
}

/**
 * Runs the files on a cluster of this machine. A cluster that this run started ends with the run, however the run ends.
 * An existing cluster stays, unless it does not match `level` or this run's layout.
 */
async function onCluster(files: string[], { keep, networkPolicies }: Level, progress: Progress): Promise<number> {
  const stays = keep || (await isAsWanted(networkPolicies));
  try {
    await binaries(programsFor(files));
    const { cluster } = await wholeCluster(progress, { networkPolicies });
    progress.say("importing the image of the product");
    await withProductImage((image) => importImages([image], progress));
    if (networkPolicies) progress.say("NetworkPolicies are enforced, and those of the chart are on");
    const code = await runTests(files, progress);
    if (code === 0) progress.say("all passed");
    else await keepLogs(cluster);
    return code;
  } catch (error) {
    if (isExpected(error) || !existsSync(LOGS)) throw error;
    process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
    await keepLogs(new Cluster());
    return 1;
  } finally {
    if (!stays && existsSync(STATE_FOLDER)) {
      await withMachine(progress, down);
      progress.say("the cluster is gone");
    }
  }
}

async function keepLogs(cluster: Cluster): Promise<void> {
  const { folder, summary } = await collectLogs(cluster);
  process.stderr.write(`logs of every component and pod: ${folder}\n`);
  if (process.env.CI === "true") process.stderr.write(summary);
}

/**
 * Runs the files one after the other: each continues where the previous file has left the cluster. Stops at the first
 * file that fails, so that the logs are from that moment.
 */
async function runTests(files: string[], progress: Progress): Promise<number> {
  for (const [n, file] of files.entries()) {
    progress.say(`${file} (${n + 1} of ${files.length})`);
    const started = performance.now();
    const { failed, skipped } = await runFiles([file], { concurrency: 1, signal: stop.signal });
    const isIncomplete = skipped.length > 0 && process.env.CI === "true";
    if (isIncomplete) progress.say(`CI=true: the run fails, because tests were skipped: ${skipped.join("; ")}`);
    const hasPassed = failed.length === 0 && !isIncomplete && !stop.signal.aborted;
    progress.say(`${file} ${hasPassed ? "passed" : "failed"} in ${elapsed(performance.now() - started)}`);
    if (hasPassed) continue;
    for (const line of failed) progress.say(`failed: ${line}`);
    const left = files.slice(n + 1);
    if (left.length > 0) progress.say(`not run: ${left.join(" ")}`);
    return 1;
  }
  return 0;
}
