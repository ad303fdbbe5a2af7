import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { bundleProduct } from "#manifests/bundle.ts";
import { fullStatus } from "#test/fakes/full-status.ts";
import { NAMESPACE as INSTALLED, installed } from "#test/fakes/installed.ts";
import { fakeApi } from "#test/fakes/kube-api.ts";
import { Bed, Ingresses, within } from "./bed.ts";
import { MapFollower } from "./map-follower.ts";
import { cpuOf, type Memory, memoryOf } from "./process.ts";
import { percentile, progress, type Reporter } from "./report.ts";
import { ROOT, type Served } from "./serve.ts";

/** Time until V8 has released the memory that a start needed. */
const SETTLE_MS = 10_000;
/** Time for a new leader and the API server to finish their work, so that the next start has the cores. */
const REST_MS = 1_500;
const COMMAND_RUNS = 9;
/** What `npx switchback` runs. */
const COMMAND = join(ROOT, "cli", "bin.js");

/** In the order of their start: the webhook is ready after the controller has issued its certificate. */
export const COMPONENTS = ["controller", "webhook", "proxy"] as const;
type ComponentName = (typeof COMPONENTS)[number];

/**
 * `npm run bench -- footprint [--names 0,100,5000] [--starts 7]`
 *
 * Measures the pods of the default installation as they run in the image: the bundle with the chart's flags. Memory is
 * that of two pods a component at rest, and of the one pod of `profile: small`. Starts are the time until `/readyz` is
 * OK, with the map of an earlier start. Then the CPU time of commands. Bare Node shows the share of the runtime.
 */
export async function run(args: string[], report: Reporter): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { names: { type: "string", default: "0,100,5000" }, starts: { type: "string", default: "7" } },
  });
  const folder = await mkdtemp(join(tmpdir(), "switchback-footprint-"));
  try {
    progress("bundling");
    await bundleProduct(folder);
    await measureBareNode(report);
    await measureCommands(folder, report);
    for (const names of values.names.split(",").map(Number)) {
      const bed = await Bed.open();
      try {
        report.section({ names });
        await new Ingresses(bed).seed(names);
        await measurePods(bed, names, report);
        await measureStarts(bed, Number(values.starts), report);
      } finally {
        await bed.close();
      }
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function measurePods(bed: Bed, names: number, report: Reporter): Promise<void> {
  const pods = await startPods(bed, names);
  const memory = await memoryAfter(SETTLE_MS, pods);
  for (const [name, each] of Object.entries(memory)) reportMemory(report, name, each);
  for (const { served } of pods.toReversed()) await served.stop();
  const small = await bed.serve("all");
  const ready = await small.ready();
  await small.rest(SETTLE_MS);
  reportMemory(report, "small", memoryOf(small.pid));
  report.figure("small-ready", ready, "ms");
  await small.stop();
}

/** A pod of the default installation. */
interface Pod {
  readonly component: ComponentName;
  readonly served: Served;
}

/** Starts all pods of the default installation, two a component. Waits until all are ready and the map has `names`. */
export async function startPods(bed: Bed, names: number): Promise<Pod[]> {
  const map = new MapFollower();
  await map.start(bed.cluster);
  const pods: Pod[] = [];
  for (const component of COMPONENTS) {
    for (const replica of [0, 1]) {
      progress(`starting ${component} ${replica}`);
      const served = await bed.serve(component, { replica });
      pods.push({ component, served });
      await served.ready();
      if (component === "controller") await within(map.size(names), "a map of all names", served);
    }
  }
  await map.stop();
  return pods;
}

/** Memory after `ms` at rest: the mean of each component's pods, and the sum of all. */
export async function memoryAfter(ms: number, pods: readonly Pod[]): Promise<Record<ComponentName | "pods", Memory>> {
  await Promise.all(pods.map(({ served }) => served.rest(ms)));
  const sumOf = (wanted: readonly Pod[], by: number): Memory => {
    const all = wanted.map(({ served }) => memoryOf(served.pid));
    const sum = (name: keyof Memory) => by * all.reduce((total, each) => total + each[name], 0);
    return { rss: sum("rss"), peak: sum("peak"), anonymous: sum("anonymous") };
  };
  const meanOf = (wanted: ComponentName) =>
    sumOf(
      pods.filter(({ component }) => component === wanted),
      1 / 2,
    );
  const [controller, webhook, proxy] = COMPONENTS.map(meanOf) as [Memory, Memory, Memory];
  return { controller, webhook, proxy, pods: sumOf(pods, 1) };
}

/** Starts each component several times, one after the other. The controller stays the leader meanwhile. */
async function measureStarts(bed: Bed, starts: number, report: Reporter): Promise<void> {
  const seen: Record<ComponentName, { ready: number; cpu: number }[]> = { controller: [], webhook: [], proxy: [] };
  for (let start = 1; start <= starts; start += 1) {
    progress(`start ${start} of ${starts}`);
    const running: Served[] = [];
    for (const component of COMPONENTS) {
      const served = await bed.serve(component);
      running.push(served);
      const ready = await served.ready();
      seen[component].push({ ready, cpu: cpuOf(served.pid) });
      await served.rest(REST_MS);
    }
    for (const served of running.toReversed()) await served.stop();
  }
  for (const component of COMPONENTS) {
    for (const name of ["ready", "cpu"] as const) {
      const values = seen[component].map((each) => each[name]);
      report.figure(`${component}-start-${name}-p50`, percentile(values, 0.5), "ms");
    }
  }
}

async function measureBareNode(report: Reporter): Promise<void> {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1e9)"], { stdio: "ignore" });
  await once(child, "spawn");
  await delay(SETTLE_MS);
  report.section({ process: "bare Node" });
  reportMemory(report, "node", memoryOf(child.pid ?? 0));
  child.kill();
}

/** Writes the CPU time of a process when it exits. */
const REPORT_CPU = `data:text/javascript,${encodeURIComponent(`
  process.on("exit", () => {
    const { user, system } = process.cpuUsage();
    process.stderr.write("cpu:" + (user + system) / 1000 + "\\n");
  });
`)}`;

/** CPU time of commands that people wait for, with code cached by an earlier run. The API server is this process. */
async function measureCommands(folder: string, report: Reporter): Promise<void> {
  const leader = installed();
  leader.onCall = ({ path }) => (path.endsWith("/status") ? { status: 200, body: fullStatus() } : undefined);
  const api = await fakeApi(leader.respond);
  const config = {
    clusters: [{ name: "c", cluster: { server: api.url.origin, "insecure-skip-tls-verify": true } }],
    users: [{ name: "u", user: {} }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  await writeFile(join(folder, "kubeconfig"), JSON.stringify(config));
  report.section({ command: "CPU time" });
  const cases: readonly (readonly [string, string, readonly string[]])[] = [
    ["bare-node", "-e", ["0"]],
    ["version", COMMAND, ["--version"]],
    ["status", COMMAND, ["status", "--switchback-namespace", INSTALLED]],
  ];
  for (const [name, file, args] of cases) {
    const used: number[] = [];
    for (let run = 0; run <= COMMAND_RUNS; run += 1) used.push(await cpuOfRun([file, ...args], folder));
    report.figure(`${name}-cpu-p50`, percentile(used.slice(1), 0.5), "ms");
  }
  await api.close();
}

/** CPU time of one run of Node, in milliseconds: user and system. Throws if the command says that it failed. */
async function cpuOfRun(args: readonly string[], folder: string): Promise<number> {
  const env = { PATH: process.env.PATH, KUBECONFIG: join(folder, "kubeconfig"), XDG_CACHE_HOME: folder };
  const child = spawn(process.execPath, ["--import", REPORT_CPU, ...args], {
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, "close")]);
  const used = /^cpu:(.*)$/m.exec(stderr)?.[1];
  // Exit code 1 reports a finding.
  if (used === undefined || code > 1) throw new Error(`${args.join(" ")}: ${stderr}`);
  return Number(used);
}

function reportMemory(report: Reporter, name: string, { rss, anonymous }: Memory): void {
  report.figure(`${name}-anonymous`, anonymous, "MB");
  report.figure(`${name}-rss`, rss, "MB");
}
