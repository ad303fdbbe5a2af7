import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type ControlPlane, startControlPlane } from "#test/cluster/controlplane.ts";
import { compileProduct } from "#test/cluster/product-image.ts";
import { type CoreDns, CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { query } from "#test/integration/dns-message.ts";
import { ROOT } from "#tools/bench/chart.ts";
import { NAMESPACE, type ServedProcess, serve } from "#tools/bench/controller/process.ts";
import { memoryOf } from "#tools/bench/process.ts";
import { createReporter, percentile, progress, type Reporter } from "#tools/bench/report.ts";
import { dnsMapOf } from "../dns-map.ts";
import { startResolver } from "../integration/start-resolver.ts";
import { MapFiles } from "../map-files.ts";
import { clusterNameCost } from "./dns/cost.ts";

// Measures the resolvers for pods: two real CoreDNS with their sidecars, and a third one as the DNS of the cluster.

/** How often CoreDNS checks its files, in milliseconds, as in the chart. */
const RELOAD_MS = 100;
const HOSTS_OF_INGRESS = 1_000;
const TARGET = { namespace: "ingress-nginx", name: "ingress-nginx-controller" };
const CLUSTER_ZONE = `$ORIGIN cluster.local.
@ 5 IN SOA ns.cluster.local. nobody.invalid. 1 5 5 5 5
api.default.svc 5 IN A 192.0.2.80
`;
/**
 * Minimum time between two changes, in milliseconds. The publisher publishes twice a second at most, and that pace
 * should not be measured.
 */
const CHANGE_EVERY_MS = 700;
const POLL_MS = 5;
const LOST_MS = 2_000;

interface Resolver {
  readonly sidecar: ServedProcess;
  readonly coreDns: CoreDns;
}

/** `npm run bench -- dns [--json] [--names 100,50000] [--changes 100] [--look-ups 10000] [--seconds 30]`. */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: {
      json: { type: "boolean", default: false },
      names: { type: "string", default: "100,50000" },
      changes: { type: "string", default: "100" },
      "look-ups": { type: "string", default: "10000" },
      seconds: { type: "string", default: "30" },
    },
  });
  const report = createReporter("dns", values.json);
  const sizes = values.names.split(",").map(Number);
  const bed = new CoreDnsBed();
  const folder = await mkdtemp(join(tmpdir(), "switchback-bench-dns-"));
  try {
    const upstream = await bed.upstream("upstream", { "cluster.local.": CLUSTER_ZONE });
    for (const size of sizes) await followed(bed, { folder, upstream, size, changes: Number(values.changes) }, report);
    await clusterNameCost(bed, upstream, { folder, count: Number(values["look-ups"]), reloadMs: RELOAD_MS }, report);
    await reloads(bed, upstream, { folder, names: Math.max(...sizes), seconds: Number(values.seconds) }, report);
  } finally {
    await bed.stop();
    await rm(folder, { recursive: true });
  }
}

interface Followed {
  readonly folder: string;
  readonly upstream: CoreDns;
  readonly size: number;
  readonly changes: number;
}

/** Measures the time from a new Ingress to both resolvers, and the memory of the processes. */
async function followed(
  bed: CoreDnsBed,
  { folder, upstream, size, changes }: Followed,
  report: Reporter,
): Promise<void> {
  progress(`${size} names: starting etcd and kube-apiserver`);
  const cluster = await startControlPlane({
    controllerManager: false,
    apiServerArgs: ["--service-cluster-ip-range=198.51.100.0/22"],
  });
  try {
    const compiled = await compileProduct(await mkdtemp(join(folder, "product-")));
    const program = { path: compiled, tree: ROOT };
    await seed(cluster, size);
    const settings = ["policy.verifyDns=off", `policy.maxNamesPerNamespace=${size + 2 * changes + 1}`];
    const controller = await serve(cluster, "controller", settings, { program });
    await controller.ready();
    const resolvers = [
      await startWithSidecar(bed, cluster, { name: `a-${size}`, folder, upstream, program }),
      await startWithSidecar(bed, cluster, { name: `b-${size}`, folder, upstream, program }),
    ];
    const lastName = `host-${size - 1}.seeded.example.com`;
    for (const { coreDns } of resolvers) await answered(coreDns, lastName);
    report.section({ names: size });
    await changesOf(cluster, resolvers, { kind: "name", count: changes }, report);
    await changesOf(cluster, resolvers, { kind: "wildcard", count: changes }, report);
    for (const [index, { sidecar, coreDns }] of resolvers.entries()) {
      const [of, goal] = [index === 0 ? "a" : "b", size === 50_000];
      const memory = { sidecar: memoryOf(sidecar.pid), coredns: memoryOf(coreDns.process.pid) };
      report.figure({ name: `sidecar-rss-${of}`, value: memory.sidecar.rss, unit: "MiB", goal: goal ? 90 : undefined });
      report.figure({
        name: `coredns-rss-${of}`,
        value: memory.coredns.rss,
        unit: "MiB",
        goal: goal ? 100 : undefined,
      });
    }
    for (const { sidecar, coreDns } of resolvers) await Promise.all([sidecar.stop(), coreDns.process.stop()]);
    await controller.stop();
  } finally {
    await cluster.stop();
  }
}

async function startWithSidecar(
  bed: CoreDnsBed,
  cluster: ControlPlane,
  of: Pick<Followed, "folder" | "upstream"> & {
    readonly name: string;
    readonly program: { path: string; tree: string };
  },
): Promise<Resolver> {
  const directory = join(of.folder, of.name);
  await mkdir(directory);
  const sidecar = await serve(cluster, "dns", [`podDns.directory=${directory}`], {
    program: of.program,
    podName: of.name,
  });
  await sidecar.ready();
  const upstream = `${LOCAL}:${of.upstream.port}`;
  return { sidecar, coreDns: await startResolver(bed, of.name, { directory, upstream, reloadMs: RELOAD_MS }) };
}

/** Measures the time from the start of the write of an Ingress until every resolver answers its name. */
async function changesOf(
  cluster: ControlPlane,
  resolvers: readonly Resolver[],
  { kind, count }: { readonly kind: "name" | "wildcard"; readonly count: number },
  report: Reporter,
): Promise<void> {
  progress(`${count} Ingresses with a ${kind}`);
  const times: number[] = [];
  for (let number = 0; number < count; number += 1) {
    const begun = performance.now();
    const name = `${kind}-${number}.changed.example.com`;
    const host = kind === "name" ? name : `*.${name}`;
    await createIngress(cluster, `${kind}-${number}`, [host]);
    await Promise.all(resolvers.map(({ coreDns }) => answered(coreDns, host.replace("*", "any"))));
    times.push(performance.now() - begun);
    await delay(Math.max(0, CHANGE_EVERY_MS - (performance.now() - begun)) + Math.random() * RELOAD_MS);
  }
  report.figure({ name: `${kind}-to-answers-p50`, value: percentile(times, 0.5), unit: "ms" });
  report.figure({ name: `${kind}-to-answers-p99`, value: percentile(times, 0.99), unit: "ms", goal: 300 });
}

/**
 * Counts lost look-ups of a name that stays, at 200 look-ups a second and two changes of names and wildcards a
 * second.
 */
async function reloads(
  bed: CoreDnsBed,
  upstream: CoreDns,
  { folder, names, seconds }: { readonly folder: string; readonly names: number; readonly seconds: number },
  report: Reporter,
): Promise<void> {
  progress(`${seconds} s of reloads with ${names} names`);
  const directory = join(folder, "reloads");
  await mkdir(directory);
  const files = new MapFiles({ directory, ttl: 5, revision: "bench", seconds: () => 1 });
  await files.write(mapOf(names, 0));
  const resolver = await startResolver(bed, "reloads", {
    directory,
    upstream: `${LOCAL}:${upstream.port}`,
    reloadMs: RELOAD_MS,
  });
  const open: Promise<boolean>[] = [];
  for (let tick = 0; tick < seconds * 200; tick += 1) {
    if (tick % 100 === 0) await files.write(mapOf(names, 1 + tick / 100));
    open.push(
      query(resolver, "host-0.seeded.example.com", "A", { timeoutMs: LOST_MS })
        .then(({ addresses }) => addresses.length === 1)
        .catch(() => false),
    );
    await delay(5);
  }
  const lost = (await Promise.all(open)).filter((isAnswered) => !isAnswered).length;
  report.section({ names, "reloads a second": 2 });
  report.figure({ name: "look-ups", value: open.length, unit: "" });
  report.figure({ name: "look-ups-lost", value: lost, unit: "", goal: 0 });
  report.figure({ name: "coredns-rss-peak", value: memoryOf(resolver.process.pid).peak, unit: "MiB" });
  await resolver.process.stop();
}

function mapOf(names: number, version: number) {
  const lines = Array.from(
    { length: names },
    (_, index) => [`host-${index}.seeded.example.com`, ["198.51.100.9"]] as const,
  );
  const changed = [
    [`change-${version}.example.com`, ["198.51.100.9"]],
    [`**.change-${version}.example.com`, ["198.51.100.9"]],
  ] as const;
  return dnsMapOf(String(version), new Map([...lines, ...changed]));
}

/** Asks until there is an address. */
async function answered(server: CoreDns, name: string): Promise<void> {
  const deadline = performance.now() + 120_000;
  while ((await query(server, name, "A")).addresses.length === 0) {
    if (performance.now() > deadline) throw new Error(`no answer for ${name}`);
    await delay(POLL_MS);
  }
}

async function seed(cluster: ControlPlane, names: number): Promise<void> {
  for (const name of [NAMESPACE, TARGET.namespace, "team"])
    await create(cluster, "/api/v1/namespaces", { metadata: { name } });
  const services = `/api/v1/namespaces/${TARGET.namespace}/services`;
  await create(cluster, services, { metadata: { name: TARGET.name }, spec: { ports: [{ port: 443 }] } });
  const hosts = Array.from({ length: names }, (_, index) => `host-${index}.seeded.example.com`);
  for (let at = 0; at < names; at += HOSTS_OF_INGRESS) {
    await createIngress(cluster, `seeded-${at}`, hosts.slice(at, at + HOSTS_OF_INGRESS));
  }
}

async function createIngress(cluster: ControlPlane, name: string, hosts: readonly string[]): Promise<void> {
  const rules = hosts.map((host) => ({ host }));
  await create(cluster, "/apis/networking.k8s.io/v1/namespaces/team/ingresses", {
    metadata: { name },
    spec: { ingressClassName: "nginx", rules },
  });
}

async function create(cluster: ControlPlane, path: string, body: object): Promise<void> {
  const { status } = await cluster.call({ method: "POST", path, body });
  if (status !== 201) throw new Error(`POST ${path} answered ${status}`);
}
