import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { binaries, Unavailable } from "../cluster/binaries.ts";
import { Cluster } from "../cluster/cluster.ts";
import { withProductImage } from "../cluster/images.ts";
import { withLock } from "../cluster/lock.ts";
import { collectLogs, summaryOf } from "../cluster/logs.ts";
import { members } from "../cluster/node/cgroup.ts";
import { down } from "../cluster/node/down.ts";
import { LOGS, STACK, STATE_FOLDER, TWO_NODES } from "../cluster/node/layout.ts";
import { NotHere, requireRoot } from "../cluster/node/requirements.ts";
import { enforcesNetworkPolicies, hasLayout, importImages, isTemporary, isUp } from "../cluster/node/up.ts";
import { elapsed, type Progress, progressLines } from "../cluster/progress.ts";
import { wholeCluster, withMachine } from "../cluster/whole.ts";
import { testFiles } from "../files.ts";
import { runFiles } from "../run-files.ts";
import { chooseVersions, VERSION_OPTIONS } from "../versions.ts";
import { onArm64 } from "./arm64.ts";
import { clusterTarget } from "./cluster-target.ts";
import { leftOut, type Need, programsFor } from "./needs.ts";
import { OPTED_IN } from "./opted-in.ts";
import { SHOP } from "./shop.ts";
import { removeSwitchback, SYSTEM } from "./switchback.ts";

// `npm run e2e [-- FILTER...]`: runs the files of this folder, and of each extra's folder `e2e`, in the order of their
// numbers, on this machine's cluster. If the cluster is not up, the run starts it, and takes it down at the end. A run
// also takes down a cluster that a killed run has left. It names each file whose needs it does not meet (needs.ts).
// --keep: the cluster stays.
// --dual-stack, --ipv6: uses a cluster with both families, or with only IPv6. With E2E_KUBECONFIG, the flag says which
// families that cluster has.
// --nodes 2: uses a cluster of two nodes, and runs only the files about two nodes.
// --kubernetes 1.34: uses this version of Kubernetes.
// --all: also runs the files that take long. Then it runs the usual files again on a cluster that enforces
// NetworkPolicies, with the chart's policies.
// --arm64: needs no cluster (arm64.ts).
// E2E_KUBECONFIG names another cluster, and E2E_IMAGE the image.

const USAGE =
  "usage: npm run e2e -- [--all | --arm64 | --dual-stack | --ipv6 | --nodes 2] [--kubernetes MINOR] [--keep] " +
  "[--break no-proxy|no-header] [FILTER...]";

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
  return error instanceof NotHere || error instanceof Unavailable;
}

async function main(args: string[], progress: Progress): Promise<number> {
  const { all, arm64, keep, break: broken, kubernetes, filters } = readArguments(args);
  const objection = chooseVersions({ kubernetes });
  if (objection !== undefined) throw new NotHere(objection);
  if (arm64) return await onArm64(progress);
  process.env.E2E_BREAK = broken;
  const files = testFiles("e2e", filters);
  if (files.length === 0) throw new NotHere(`no end-to-end test has ${filters.join(" or ")} in its path`);
  if (all && (STACK !== "ipv4" || TWO_NODES))
    throw new NotHere("--all: works only on an IPv4-only cluster with one node");
  const { other } = clusterTarget();
  if (other !== undefined) {
    const ownOnly = all ? "--all" : kubernetes && "--kubernetes";
    if (ownOnly) throw new NotHere(`${ownOnly}: runs only on this machine's own node; unset E2E_KUBECONFIG`);
    return await onOther(other, files, progress);
  }
  requireRoot();
  const waiting = () => progress.status("waiting for another run of the end-to-end tests on this machine");
  return await withLock(`${STATE_FOLDER}.e2e.lock`, () => onOwnNode(files, { all, keep }, progress), waiting);
}

/** @throws NotHere with the usage */
function readArguments(args: string[]) {
  const flag = { type: "boolean", default: false } as const;
  // layout.ts reads the options for families and nodes; here they are only accepted.
  const layout = { "dual-stack": flag, ipv6: flag, nodes: { type: "string", default: "1" } } as const;
  const own = { all: flag, arm64: flag, keep: flag, break: { type: "string", default: "" } } as const;
  const options = { ...layout, ...own, kubernetes: VERSION_OPTIONS.kubernetes };
  try {
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options });
    const isKnown = ["", "no-proxy", "no-header"].includes(values.break) && ["1", "2"].includes(values.nodes);
    if (isKnown) return { ...values, filters: positionals };
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
  const usual: Need[] = ["node", "cert-manager"];
  const run = chosen(files, [...usual, ...rounds.flat()], progress);
  for (const round of rounds) {
    const fit = run.filter((file) => leftOut(file, [...usual, ...round]) === undefined);
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
async function onCluster(files: string[], level: Level, progress: Progress): Promise<number> {
  try {
    await binaries(programsFor(files));
    const cluster = await prepare(level, progress);
    if (level.networkPolicies) progress.say("NetworkPolicies are enforced, and those of the chart are on");
    const code = await runTests(files, progress);
    if (code === 0) progress.say("all passed");
    else await keepLogs(cluster, LOGS);
    return code;
  } catch (error) {
    if (isExpected(error) || !existsSync(LOGS)) throw error;
    process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
    await keepLogs(new Cluster(), LOGS);
    return 1;
  } finally {
    if (await isTemporary()) {
      await withMachine(progress, down);
      progress.say("the cluster is gone");
    }
  }
}

/** `components`: the logs of the node's own programs and pods, if the tests can read them. */
async function keepLogs(cluster: Cluster, components?: string): Promise<void> {
  const what = components === undefined ? "every pod" : "every component and pod";
  process.stderr.write(`logs of ${what}: ${await collectLogs(cluster, components)}\n`);
  if (process.env.CI === "true") process.stderr.write(await summaryOf(cluster));
}

/** Runs the files that can run on a user's cluster. At the end, removes what they have made there. */
async function onOther(cluster: Cluster, files: string[], progress: Progress): Promise<number> {
  const run = chosen(files, await examine(cluster), progress);
  try {
    const code = await runTests(run, progress);
    if (code !== 0) await keepLogs(cluster);
    const isIncomplete = process.env.CI === "true" && run.length < files.length;
    if (isIncomplete) progress.say("CI=true: the run fails, because files did not run");
    return code !== 0 || isIncomplete ? 1 : 0;
  } finally {
    await leave(cluster);
    progress.say("what the tests made in the cluster is gone");
  }
}

async function prepare({ keep, networkPolicies }: Level, progress: Progress): Promise<Cluster> {
  if (process.env.CI === "true" && !(await isUp())) {
    progress.say("CI=true: an `up` is killed half-way; the next one has to clear up after it");
    await crashDuringUp();
  }
  const { cluster } = await wholeCluster(progress, { temporary: !keep, networkPolicies });
  progress.say("importing the image of the product");
  await withProductImage((image) => importImages([image], progress));
  return cluster;
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

// A user's cluster: which needs it meets, and how the tests leave it as it was.

/**
 * The needs that a cluster meets. @throws NotHere if the cluster does not answer, or has objects that the tests would
 * make.
 */
async function examine(cluster: Cluster): Promise<Need[]> {
  const prefix = `E2E_KUBECONFIG: the cluster of ${process.env.E2E_KUBECONFIG}`;
  const { code, stdout, stderr } = await cluster.tool("kubectl", ["api-versions"]);
  if (code !== 0) throw new NotHere(`${prefix} does not answer: ${stderr.trim().split("\n").at(-1) ?? ""}`);
  const namespaces = [SHOP, OPTED_IN, SYSTEM].map((name) => `namespace/${name}`);
  const objects = ["mutatingwebhookconfiguration/switchback-webhook", ...namespaces];
  for (const object of objects) {
    if ((await cluster.kubectl("get", object, "--ignore-not-found", "-o", "name")) === "") continue;
    throw new NotHere(`${prefix} has a ${object} already, which the tests would make and remove`);
  }
  return /^cert-manager\.io\//m.test(stdout) ? ["cert-manager"] : [];
}

/** Removes everything that the files have made in the cluster. */
async function leave(cluster: Cluster): Promise<void> {
  await removeSwitchback(cluster);
  await cluster.kubectl("delete", "namespace", SHOP, OPTED_IN, "--ignore-not-found", "--timeout=120s");
}

/**
 * Kills an `up` half-way, together with the tool that it runs at that moment. So the next `up` must clean up after a
 * crash. @throws NotHere if `up` ends by itself; then `up` has printed the reason.
 */
async function crashDuringUp(): Promise<void> {
  // A line of `up`'s output. After it, most of the work is half done: programs run, pods start, volumes are mounted.
  const halfWay = "waiting for cluster DNS";
  const program = join(import.meta.dirname, "..", "cluster", "node", "main.ts");
  const child = spawn(process.execPath, [program, "up", "--bare"], {
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(child, "close");
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    process.stderr.write(text);
    said += text;
    const isHere = child.exitCode === null && child.signalCode === null && child.pid !== undefined;
    if (isHere && said.includes(halfWay)) process.kill(-child.pid, "SIGKILL");
  });
  const [, signal] = await ended;
  if (signal !== "SIGKILL") throw new NotHere("`up` has ended before it could be killed half-way");
  if ((await members([])).length === 0)
    throw new Error("the killed `up` has left no process, so its removal was not tested");
}
