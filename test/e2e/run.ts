import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { binaries, Unavailable } from "../cluster/binaries.ts";
import { Cluster } from "../cluster/cluster.ts";
import { withLock } from "../cluster/lock.ts";
import { collectLogs, summaryOf } from "../cluster/logs.ts";
import { type BinaryName, sourceOf } from "../cluster/modules.ts";
import { crashDuringUp } from "../cluster/node/crash.ts";
import { down } from "../cluster/node/down.ts";
import { LOGS, STACK, STATE_FOLDER, TWO_NODES } from "../cluster/node/layout.ts";
import { NotHere, requireRoot } from "../cluster/node/requirements.ts";
import { enforcesNetworkPolicies, importImages, isTemporary, isUp } from "../cluster/node/up.ts";
import { withProductImage } from "../cluster/product-image.ts";
import { type Progress, progressLines } from "../cluster/progress.ts";
import { wholeCluster, withMachine } from "../cluster/whole.ts";
import { testFiles } from "../files.ts";
import { runFiles } from "../run-files.ts";
import { recordRun } from "../support.ts";
import { chooseVersions, VERSION_OPTIONS } from "../versions.ts";
import { onArm64 } from "./arm64.ts";
import { clusterTarget } from "./cluster-target.ts";
import { examine, leave, missingFor } from "./other-cluster.ts";

// `npm run e2e [-- FILTER...]`: runs the files of this folder, and of each extra's folder `e2e`, in the order of their
// numbers, on this machine's cluster. If the cluster is not up, the run starts it, and takes it down at the end. A run
// also takes down a cluster that a killed run has left. --keep: the cluster stays.
// --dual-stack, --ipv6: uses a cluster with both families, or with only IPv6. Files that need IPv4 alone do not run.
// With E2E_KUBECONFIG, the flag says which families that cluster has.
// --nodes 2: uses a cluster of two nodes, and runs only the files about two nodes.
// --kubernetes 1.34: uses this version of Kubernetes.
// --all: also runs the files that take long. Then it runs the usual files again on a cluster that enforces
// NetworkPolicies, with the chart's policies.
// --arm64: needs no cluster (arm64.ts).
// E2E_KUBECONFIG names another cluster, and E2E_IMAGE the image: runs the files that can run there (other-cluster.ts).

const USAGE =
  "usage: npm run e2e -- [--all | --arm64 | --dual-stack | --ipv6 | --nodes 2] [--kubernetes MINOR] [--keep] " +
  "[--break no-proxy|no-header] [FILTER...]";

/** Files that test nothing if NetworkPolicies are not enforced. */
const ENFORCED_ONLY = /\/85-/;

/** Files that take too long for each run of CI. They run only with --all. */
const LONG = /\/(?:36|37|38|39|78|79)-/;

/**
 * Files that need IPv4 alone. What they write or read has IPv4 addresses, or they use another network (Felix).
 */
const IPV4_ONLY = /\/(?:36|37|38|39|64|68|69|77|78|79|80|85|97)-/;

/** Files about two nodes. With --nodes 2, only these run; otherwise, they do not run. */
const TWO_NODES_ONLY = /\/61-/;

/** Files that need both families. */
const DUAL_STACK_ONLY = /\/41-/;

/** Programs that only one file needs. They are built before the time of its tests counts. */
const OWN_BINARIES: readonly (readonly [RegExp, BinaryName])[] = [
  [/\/37-/, "envoy-gateway"],
  [/\/38-/, "contour"],
  [/\/39-/, "caddy"],
  [/\/79-/, "external-dns"],
];

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
  const { all, arm64, keep, broken, kubernetes, filters } = readArguments(args);
  const objection = chooseVersions({ kubernetes });
  if (objection !== undefined) throw new NotHere(objection);
  if (arm64) return await onArm64(progress);
  process.env.E2E_BREAK = broken;
  const files = endToEndFiles(filters);
  const usual = files.filter((file) => !LONG.test(file) && (STACK === "ipv4" || !IPV4_ONLY.test(file)));
  if (all && (STACK !== "ipv4" || TWO_NODES))
    throw new NotHere("--all: works only on an IPv4-only cluster with one node");
  if (!all && usual.length === 0)
    throw new NotHere(`${files.join(" ")}: not run; some files need --all, others an IPv4-only cluster`);
  const { other } = clusterTarget();
  const ownOnly = all ? "--all" : kubernetes === undefined ? undefined : "--kubernetes";
  if (other !== undefined && ownOnly !== undefined) {
    throw new NotHere(`${ownOnly}: runs only on this machine's own node; unset E2E_KUBECONFIG`);
  }
  if (other !== undefined) return await onOther(other, usual, progress);
  requireRoot();
  const waiting = () => progress.status("waiting for another run of the end-to-end tests on this machine");
  return await withLock(
    `${STATE_FOLDER}.e2e.lock`,
    async () => {
      if (!all) {
        const code = await onOwnNode(usual, { keep }, progress);
        if (code === 0 && filters.length === 0 && broken === "") {
          if (kubernetes !== undefined) recordVersion(kubernetes, usual.length);
          recordLayout(usual.length);
        }
        return code;
      }
      const code = await onOwnNode(files, { keep, networkPolicies: false }, progress);
      return code !== 0 || usual.length === 0
        ? code
        : await onOwnNode(usual, { keep, networkPolicies: true }, progress);
    },
    waiting,
  );
}

/** Records a run in docs/support.yaml. */
function recordVersion(kubernetes: string, files: number): void {
  recordRun({
    what: "Kubernetes, a whole node",
    version: `${sourceOf("kube-apiserver").version}, kubelet and kube-proxy too`,
    passed: `${files} files of the end-to-end tests`,
    command: `npm run e2e -- --kubernetes ${kubernetes}`,
  });
}

/** Records a run in docs/support.yaml. */
function recordLayout(files: number): void {
  if (TWO_NODES) {
    const passed = "a pod, a proxy and an agent on each; a node cut off, back and drained; leader; trafficDistribution";
    recordRun({
      what: "Two nodes",
      version: `Kubernetes ${sourceOf("kube-apiserver").version}`,
      passed,
      command: "npm run e2e -- --nodes 2",
    });
  }
  if (STACK === "ipv4") return;
  const version = STACK === "ipv6" ? "IPv6 alone" : "both families";
  const passed = `${files} files of the end-to-end tests`;
  recordRun({ what: "IP families", version, passed, command: `npm run e2e -- --${STACK}` });
}

interface Arguments {
  all: boolean;
  arm64: boolean;
  keep: boolean;
  broken: string;
  kubernetes: string | undefined;
  filters: string[];
}

function readArguments(args: string[]): Arguments {
  const flag = { type: "boolean", default: false } as const;
  // layout.ts reads the options for families and nodes; here they are only accepted.
  const layout = { "dual-stack": flag, ipv6: flag, nodes: { type: "string", default: "1" } } as const;
  const { kubernetes: minor } = VERSION_OPTIONS;
  const own = {
    all: flag,
    arm64: flag,
    keep: flag,
    break: { type: "string", default: "" },
    kubernetes: minor,
  } as const;
  const options = { ...layout, ...own };
  try {
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options });
    if (["", "no-proxy", "no-header"].includes(values.break) && ["1", "2"].includes(values.nodes)) {
      const { all, arm64, keep, break: broken, kubernetes } = values;
      return { all, arm64, keep, broken, kubernetes, filters: positionals };
    }
  } catch {
    // An unknown option.
  }
  throw new NotHere(USAGE);
}

interface Level {
  keep: boolean;
  /** Whether the cluster must enforce NetworkPolicies. Undefined: an existing cluster is used with either setting. */
  networkPolicies?: boolean;
}

/**
 * Runs the files on this machine's cluster. A cluster that this run started ends with the run, however the run ends.
 * An existing cluster stays, unless it does not match `level` or this run's layout.
 */
async function onOwnNode(files: string[], level: Level, progress: Progress): Promise<number> {
  try {
    const own = OWN_BINARIES.filter(([needsIt]) => files.some((file) => needsIt.test(file)));
    await binaries(own.map(([, name]) => name));
    const cluster = await prepare(level, progress);
    const isEnforced = await enforcesNetworkPolicies();
    if (isEnforced) progress.say("NetworkPolicies are enforced, and those of the chart are on");
    const code = await runTests(
      files.filter((file) => isEnforced || !ENFORCED_ONLY.test(file)),
      progress,
    );
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

/**
 * Runs the files that can run on a user's cluster, and says for each other file why it does not run. At the end,
 * removes what the files have made there.
 */
async function onOther(cluster: Cluster, files: string[], progress: Progress): Promise<number> {
  const present = await examine(cluster);
  const run = files.filter((file) => {
    const missing = missingFor(file, present);
    if (missing !== undefined) progress.say(`${file}: not run, ${missing}`);
    return missing === undefined;
  });
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
  const { cluster } = await wholeCluster(progress, {
    temporary: !keep,
    ...(networkPolicies !== undefined && { networkPolicies }),
  });
  progress.say("importing the image of the product");
  await withProductImage((image) => importImages([image], progress));
  return cluster;
}

function endToEndFiles(filters: string[]): string[] {
  const files = testFiles("e2e", filters)
    .filter((file) => TWO_NODES_ONLY.test(file) === TWO_NODES)
    .filter((file) => STACK === "dual-stack" || !DUAL_STACK_ONLY.test(file));
  const nodes = TWO_NODES ? "two nodes" : "one node";
  if (files.length === 0) throw new NotHere(`no end-to-end test has ${filters.join(" or ")} in its path, for ${nodes}`);
  return files;
}

/**
 * Runs the files one after the other: each continues where the previous file has left the cluster. Stops at the first
 * file that fails, so that the logs are from that moment.
 */
async function runTests(files: string[], progress: Progress): Promise<number> {
  for (const [n, file] of files.entries()) {
    progress.say(`${file} (${n + 1} of ${files.length})`);
    const { failed, skipped } = await runFiles([file], { concurrency: 1, signal: stop.signal });
    const isIncomplete = skipped.length > 0 && process.env.CI === "true";
    if (isIncomplete) progress.say(`CI=true: the run fails, because tests were skipped: ${skipped.join("; ")}`);
    if (failed.length === 0 && !isIncomplete && !stop.signal.aborted) continue;
    const left = files.slice(n + 1);
    for (const line of failed) progress.say(`failed: ${line}`);
    progress.say(`${file} failed${left.length === 0 ? "" : `; not run: ${left.join(" ")}`}`);
    return 1;
  }
  return 0;
}
