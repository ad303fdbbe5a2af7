import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { compileProduct } from "#test/cluster/product-image.ts";
import { type Bed, openBed } from "../controller/bed.ts";
import { createReporter, progress } from "../report.ts";
import { fanOut } from "./fan-out.ts";
import { fencing } from "./fencing.ts";
import type { Population } from "./population.ts";
import { measureRun, type Run, type Seen } from "./run.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
/** Number of namespaces in which workloads may be restarted, in runs with restarts. */
const RESTART_NAMESPACES = 20;
const PODS_PER_NAMESPACE = 15;

/**
 * `npm run bench -- scale [--pods 150000] [--nodes 5000] [--agents 200] [--names 1000] [--fan-out-names 50000]
 * [--fan-out-opted-in 1] [--changes 5] [--tries 20] [--only none,idle,some,all,live,fan-out,fencing] [--heap MB]
 * [--beside TREE] [--json]`
 *
 * Runs components as processes against a real etcd and kube-apiserver. A server in between makes up pods, namespaces,
 * their workloads and most of the agents' Leases (tools/bench/scale/front.ts). `--heap`: the controller's heap,
 * instead of the chart's. With `--beside`, another checkout is measured in turns.
 */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: {
      json: { type: "boolean", default: false },
      pods: { type: "string", default: "3000" },
      nodes: { type: "string", default: "100" },
      agents: { type: "string", default: "200" },
      names: { type: "string", default: "1000" },
      "fan-out-names": { type: "string", default: "50000" },
      changes: { type: "string", default: "5" },
      tries: { type: "string", default: "20" },
      "fan-out-opted-in": { type: "string", default: "1" },
      only: { type: "string", default: "none,idle,some,all,live,fan-out,fencing" },
      heap: { type: "string" },
      beside: { type: "string" },
    },
  });
  const [pods, nodes] = [Number(values.pods), Number(values.nodes)];
  const size = { pods, nodes, namespaces: Math.ceil(pods / PODS_PER_NAMESPACE) };
  const agents = Math.min(nodes, Number(values.agents));
  const only = values.only.split(",");
  const nodeFlags = values.heap === undefined ? [] : [`--max-old-space-size=${values.heap}`];
  const runs = runsOf(size, agents, { changes: Number(values.changes), nodeFlags }).filter(({ name }) =>
    only.includes(name),
  );
  const trees = values.beside === undefined ? [ROOT] : [resolve(values.beside), ROOT];
  const reporter = createReporter("scale", values.json);
  progress(
    `made up: ${pods} pods, ${size.namespaces} namespaces, their Deployments and ReplicaSets, and the Leases of`,
  );
  progress(
    `${nodes - agents} agents that copy ${agents} real ones. Real: etcd, kube-apiserver, the controller, ` +
      "Ingresses, the map",
  );
  const folder = await mkdtemp(join(tmpdir(), "switchback-scale-"));
  const beds: Bed[] = [];
  try {
    for (const tree of trees) {
      progress(`compiling ${tree}`);
      beds.push(
        await openBed(tree, await compileProduct(await mkdtemp(join(folder, "tree-")), tree), Number(values.names)),
      );
    }
    const none = new Map<Bed, Seen>();
    for (const each of runs) {
      for (const bed of beds) {
        reporter.section({ run: each.name, tree: treeName(bed), ...size });
        progress(`${each.name}: ${each.what}`);
        const seen = await measureRun(bed, each, reporter, none.get(bed));
        if (each.name === "none" && seen !== undefined) none.set(bed, seen);
      }
    }
    const fanOutOf = {
      population: quiet(size, Number(values["fan-out-opted-in"])),
      agents,
      names: Number(values["fan-out-names"]),
    };
    const others = {
      fencing: (bed: Bed) => fencing(bed, Number(values.tries), reporter),
      "fan-out": (bed: Bed) => fanOut(bed, fanOutOf, reporter),
    };
    for (const [name, measure] of Object.entries(others).filter(([each]) => only.includes(each))) {
      for (const bed of beds) {
        reporter.section({ run: name, tree: treeName(bed), ...size });
        await measure(bed);
      }
    }
  } finally {
    for (const bed of beds) await bed.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function treeName({ tree }: Bed): string {
  return tree === ROOT ? "this" : basename(tree);
}

type Size = Pick<Population, "pods" | "nodes" | "namespaces">;

function runsOf(size: Size, agents: number, each: Pick<Run, "changes" | "nodeFlags">): Run[] {
  const some = { ...size, optedIn: 0.05, onChange: "restart" } as const;
  const all = { ...some, optedIn: 1 };
  const restart = RESTART_NAMESPACES;
  return [
    {
      name: "none",
      what: "no pods at all, nothing followed",
      population: { ...some, pods: 0, nodes: 0, namespaces: 0 },
      ...each,
    },
    { name: "idle", what: "5 % of the namespaces opted in, nothing followed", population: some, ...each },
    { name: "some", what: "5 % opted in, restarts in 20 namespaces", population: some, restart, ...each },
    { name: "all", what: "all opted in, restarts in 20 namespaces", population: all, restart, ...each },
    {
      name: "live",
      what: `all opted in and live, ${agents} real agents`,
      population: { ...all, onChange: "live" },
      agents,
      ...each,
    },
  ];
}

/** A population whose pods chose names that do not change. */
function quiet(size: Size, optedIn: number): Population {
  return { ...size, optedIn, onChange: "live", hosts: "*.team-0.example.com" };
}
