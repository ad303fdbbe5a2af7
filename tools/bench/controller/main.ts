import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { MAP_KEY, TARGET_KEY } from "#hostmap/metadata-keys.ts";
import { TARGETS_NAME } from "#lib/documents/targets-name.ts";
import { type ControlPlane, startControlPlane } from "#test/cluster/controlplane.ts";
import { cpuOf, memoryOf } from "../process.ts";
import { createReporter, percentile, progress, type Reporter } from "../report.ts";
import { PORTS } from "./bed.ts";
import { measureBeside } from "./beside.ts";
import { type Change, Ingresses } from "./ingresses.ts";
import { MapFollower } from "./map.ts";
import { type Bench, churn, idleCpu, settingsOf, singleChanges, within } from "./phases.ts";
import { NAMESPACE, type ServedProcess, serve } from "./process.ts";
import { Routes, startDns } from "./routes.ts";

const CHURN_PER_SECOND = 50;
/**
 * Pause after a start and after the churn, so that garbage collection and the last responses do not affect the next
 * measurement.
 */
const SETTLE_MS = 3_000;
/** At this size, the benchmark also measures the other components' memory. */
const COMPONENTS_AT = 10_000;

interface Options {
  readonly names: readonly number[];
  readonly seconds: number;
  readonly churnSeconds: number;
  readonly mixed: boolean;
  readonly nodeFlags: readonly string[];
}

/**
 * `npm run bench -- controller [--json] [--names 100,10000,50000] [--seconds 60] [--churn 30] [--dual-stack]
 * [--mixed] [--cpu-prof DIR]`
 *
 * Measures the controller as a separate process against a real etcd and kube-apiserver. Each size gets `--seconds` of
 * single changes, one a second, and then `--churn` seconds with 50 changes a second. With `--mixed`, half of the
 * names and of the changes come from HTTPRoutes. A fiftieth as many Gateways (200 at most) have a load balancer each,
 * which the controller finds. `--cpu-prof` writes a profile of each controller. With `--beside TREE`, only single
 * changes and new Services are measured, `--seconds` of each in each round, in turns with another checkout's
 * controller.
 */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: {
      json: { type: "boolean", default: false },
      names: { type: "string", default: "100,10000,50000" },
      seconds: { type: "string", default: "60" },
      churn: { type: "string", default: "30" },
      "dual-stack": { type: "boolean", default: false },
      mixed: { type: "boolean", default: false },
      "cpu-prof": { type: "string" },
      beside: { type: "string" },
    },
  });
  const profile = values["cpu-prof"];
  const options = {
    names: values.names
      .split(",")
      .map(Number)
      .sort((a, b) => a - b),
    seconds: Number(values.seconds),
    churnSeconds: Number(values.churn),
    mixed: values.mixed,
    nodeFlags: profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`],
  };
  if (values.beside !== undefined) {
    const of = { names: options.names, seconds: options.seconds };
    return await measureBeside(resolve(values.beside), of, createReporter("controller", values.json));
  }
  progress("starting etcd and kube-apiserver");
  const cluster = await startControlPlane({
    controllerManager: false,
    // With one address family, a name is one line, as in most clusters. The range has room for 200 Gateways' Services
    // and as many front Services.
    apiServerArgs: values["dual-stack"] ? [] : ["--service-cluster-ip-range=198.51.100.0/22"],
  });
  try {
    await measure(cluster, options, createReporter("controller", values.json));
  } finally {
    await cluster.stop();
  }
}

async function measure(cluster: ControlPlane, options: Options, report: Reporter): Promise<void> {
  await cluster.call({ method: "POST", path: "/api/v1/namespaces", body: { metadata: { name: NAMESPACE } } });
  await createTarget(cluster);
  const routes = options.mixed ? await Routes.prepare(cluster) : undefined;
  const dns = await startDns();
  const ingresses = new Ingresses(cluster);
  const nextChange = byTurns(ingresses, routes ?? ingresses);
  const bench = { dns: dns.server, ingresses, nextChange, map: new MapFollower(cluster, NAMESPACE) };
  await bench.map.start();
  let smallestCpu: number | undefined;
  for (const names of options.names) {
    progress(`${names} names`);
    const ofRoutes = routes === undefined ? 0 : Math.floor(names / 2);
    await routes?.seed(ofRoutes);
    await bench.ingresses.seed(names - ofRoutes);
    report.section({ names });
    const cpu = await measureSize(cluster, bench, { ...options, size: names }, report);
    smallestCpu ??= cpu;
    report.figure({ name: "change-cpu-ratio", value: cpu / smallestCpu, unit: "x", goal: 3 });
    await bench.ingresses.removeChanges();
    await forget(cluster);
  }
  bench.map.stop();
  dns.close();
}

function byTurns(first: Ingresses | Routes, second: Ingresses | Routes): () => Change {
  let number = 0;
  return () => (number++ % 2 === 0 ? first : second).nextChange();
}

/** The Service of the default target. Without it, names do not lead to that target. */
async function createTarget(cluster: ControlPlane): Promise<void> {
  const [namespace, name] = ["ingress-nginx", "ingress-nginx-controller"];
  const create = async (path: string, body: object) => {
    const { status } = await cluster.call({ method: "POST", path, body });
    if (status !== 201) throw new Error(`POST ${path} answered ${status}`);
  };
  await create("/api/v1/namespaces", { metadata: { name: namespace } });
  await create(`/api/v1/namespaces/${namespace}/services`, { metadata: { name }, spec: { ports: PORTS } });
}

/** Measures at one size. Returns the CPU time of a change, in milliseconds. */
async function measureSize(
  cluster: ControlPlane,
  bench: Bench,
  options: Options & { size: number },
  report: Reporter,
): Promise<number> {
  const { size, nodeFlags } = options;
  const controller = await serve(cluster, "controller", settingsOf(bench), { nodeFlags });
  try {
    await coldStart(bench, controller, size, report);
    await delay(SETTLE_MS);
    const cpu = await changes(bench, controller, options, report);
    const { rss } = memoryOf(controller.pid);
    report.figure({ name: "controller-rss", value: rss, unit: "MiB", goal: size <= 10_000 ? 200 : 400 });
    if (size === COMPONENTS_AT) await otherComponents(cluster, report);
    if (options.churnSeconds > 0) await churnFigures(bench, controller, options.churnSeconds, report);
    report.figure({ name: "controller-rss-peak", value: memoryOf(controller.pid).peak, unit: "MiB" });
    await controller.stop();
    await restart(cluster, bench, report);
    return cpu;
  } finally {
    await controller.stop();
  }
}

/** Measures a start with nothing published: no map, no front Services, no certificates. */
async function coldStart(bench: Bench, controller: ServedProcess, size: number, report: Reporter): Promise<void> {
  const { map, ingresses } = bench;
  const before = map.publications.length;
  const full = await within(bench, Promise.race([map.size(size), controller.ended]), "a map of all names");
  const first = map.publications[before]?.at ?? full;
  const cpu = cpuOf(controller.pid);
  const { shards, bytes } = map.summary();
  const goal = size <= 10_000 ? 3_000 : undefined;
  report.figure({ name: "ingress-bytes", value: await ingresses.averageBytes(), unit: "B" });
  report.figure({ name: "map-shards", value: shards, unit: "" });
  report.figure({ name: "map-bytes", value: bytes / 1_000, unit: "kB" });
  report.figure({ name: "cold-start-first-publication", value: first - controller.startedAt, unit: "ms" });
  report.figure({ name: "cold-start-all-names", value: full - controller.startedAt, unit: "ms", goal });
  report.figure({ name: "cold-start-cpu", value: cpu, unit: "ms" });
  report.figure({ name: "cold-start-rss-peak", value: memoryOf(controller.pid).peak, unit: "MiB" });
}

async function changes(
  bench: Bench,
  { pid }: ServedProcess,
  { size, seconds }: Options & { size: number },
  report: Reporter,
): Promise<number> {
  progress(`${seconds} single changes`);
  const idle = await idleCpu(pid, Math.min(10, seconds) * 1_000);
  const { fromWrite, fromAnswer, cpu } = await singleChanges(bench, pid, seconds, idle);
  const ms = (name: string, value: number, goal?: number) => report.figure({ name, value, unit: "ms", goal });
  ms("change-to-index-p50", percentile(fromWrite, 0.5));
  ms("change-to-index-p99", percentile(fromWrite, 0.99), size <= 10_000 ? 100 : 150);
  ms("change-to-index-max", Math.max(...fromWrite));
  ms("change-answer-to-index-p50", percentile(fromAnswer, 0.5));
  ms("change-answer-to-index-p99", percentile(fromAnswer, 0.99));
  ms("change-cpu", cpu);
  report.figure({ name: "idle-cpu", value: idle * 100, unit: "%" });
  return cpu;
}

async function churnFigures(bench: Bench, { pid }: ServedProcess, seconds: number, report: Reporter): Promise<void> {
  progress(`${CHURN_PER_SECOND} changes a second for ${seconds} s`);
  const result = await churn(bench, pid, CHURN_PER_SECOND, seconds);
  report.figure({ name: "churn-changes", value: result.changesPerSecond, unit: "/s" });
  report.figure({ name: "churn-publications", value: result.publicationsPerSecond, unit: "/s", goal: 2 });
  report.figure({ name: "churn-written", value: result.bytesPerSecond / 1_000, unit: "kB/s", goal: 200 });
  report.figure({ name: "churn-lag-p50", value: percentile(result.lags, 0.5), unit: "ms" });
  report.figure({ name: "churn-lag-p99", value: percentile(result.lags, 0.99), unit: "ms" });
  report.figure({ name: "churn-cpu", value: result.cpu * 100, unit: "%" });
}

/** Measures a new leader that finds a published map, from its start until it publishes a change made meanwhile. */
async function restart(cluster: ControlPlane, bench: Bench, report: Reporter): Promise<void> {
  const change = bench.nextChange();
  const published = bench.map.published(change.host);
  const controller = await serve(cluster, "controller", settingsOf(bench));
  try {
    await change.write();
    const at = await within(bench, published, "the change made while the controller started");
    report.figure({ name: "restart-to-change-published", value: at - controller.startedAt, unit: "ms" });
  } finally {
    await controller.stop();
  }
}

/** Measures the memory of an idle webhook and an idle proxy with this map. */
async function otherComponents(cluster: ControlPlane, report: Reporter): Promise<void> {
  for (const component of ["webhook", "proxy"] as const) {
    const settings = component === "webhook" ? ["webhook.port=0"] : [];
    const process = await serve(cluster, component, settings);
    try {
      await process.ready();
      await delay(SETTLE_MS);
      const { rss, peak } = memoryOf(process.pid);
      report.figure({ name: `${component}-rss`, value: rss, unit: "MiB" });
      report.figure({ name: `${component}-rss-peak`, value: peak, unit: "MiB" });
    } catch (error) {
      progress(`${component}: ${String(error)}`);
    } finally {
      await process.stop();
    }
  }
}

/** Removes everything that a controller wrote, so that the next size starts like a new installation. */
async function forget(cluster: ControlPlane): Promise<void> {
  const base = `/api/v1/namespaces/${NAMESPACE}`;
  for (const path of [
    `${base}/configmaps?labelSelector=${encodeURIComponent(`${MAP_KEY}=hosts`)}`,
    `${base}/configmaps/${TARGETS_NAME}`,
    `${base}/services?labelSelector=${encodeURIComponent(TARGET_KEY)}`,
    `${base}/secrets`,
    `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases`,
  ]) {
    const { status, body } = await cluster.call({ method: "DELETE", path });
    if (status !== 200) throw new Error(`DELETE ${path} answered ${status}: ${JSON.stringify(body)}`);
  }
}
