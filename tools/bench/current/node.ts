import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { stripTypeScriptTypes } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parse } from "yaml";
import { buildManagedAliases } from "#hostmap/inject.ts";
import { MAP_KEY } from "#hostmap/metadata-keys.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import { INDEX_KEY, INDEX_NAME, renderIndex, SHARD_KEY, SHARD_NAMES } from "#lib/documents/map-format.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { mapRevisionOf, Shards } from "#lib/documents/shards.ts";
import { type ControlPlane, startControlPlane } from "#test/cluster/controlplane.ts";
import { freePorts } from "#test/cluster/ports.ts";
import { compileProduct } from "#test/cluster/product-image.ts";
import { type KubeletFiles, kubeletFiles } from "#test/fakes/kubelet-files.ts";
import { cpuOf, MB_PER_MIB, memoryOf } from "../process.ts";
import { percentile, progress, type Reporter } from "../report.ts";

const NAMESPACE = "switchback-system";
/** The namespace of the agent's Lease. */
const AGENTS = "switchback-agent";
const NODE = "node-1";
const ADDRESS = ["198.51.100.9"];
const MAX_NAMES = 500;
/** Shorter than the chart's interval, to shorten the wait after the work. */
const SWEEP_SECONDS = 5;

interface NodeOptions {
  readonly pods: number;
  /**
   * Number of different maps that the pods were injected with. So many hosts files differ in more than the pod's own
   * line.
   */
  readonly kinds: number;
  readonly names: number;
  readonly changes: number;
  readonly idleSeconds: number;
}

/**
 * Measures one node's agent, as the image has it, against a real etcd and kube-apiserver. The pods were injected with
 * an older map and follow live. There is no kubelet: the benchmark writes their hosts files to this machine's disk.
 */
export async function measureNode(options: NodeOptions, report: Reporter): Promise<void> {
  progress("starting etcd and kube-apiserver");
  const cluster = await startControlPlane({ controllerManager: false });
  const folder = await mkdtemp(join(tmpdir(), "switchback-current-"));
  const cleanups: Array<() => void> = [];
  const kubelet = kubeletFiles({ after: (done) => cleanups.push(done as () => void) });
  try {
    progress("compiling the program as the image has it");
    const program = await compileProduct(folder);
    const map = new PublishedNames(cluster, options.names);
    await map.start();
    progress(`making ${options.pods} pods`);
    const uids = await makePods(cluster, kubelet, map, options);
    report.section({ pods: options.pods, kinds: options.kinds, names: options.names });
    const agent = await startAgent(cluster, kubelet, program, folder);
    try {
      await measure(agent, { map, uids, kubelet }, options, report);
    } finally {
      agent.child.kill("SIGTERM");
      await once(agent.child, "exit");
    }
  } finally {
    await cluster.stop();
    await rm(folder, { recursive: true, force: true });
    for (const done of cleanups) done();
  }
}

interface Agent {
  readonly pid: number;
  readonly child: ChildProcess;
  metric(name: string): Promise<number>;
}

interface World {
  readonly map: PublishedNames;
  readonly uids: readonly string[];
  readonly kubelet: KubeletFiles;
}

async function measure(agent: Agent, world: World, options: NodeOptions, report: Reporter): Promise<void> {
  progress("single changes");
  const [all, rounds]: [number[], number[]] = [[], []];
  for (let change = 0; change < options.changes; change += 1) {
    const name = `a-change-${change}.example.com`;
    const at = performance.now();
    await world.map.add(name);
    await everywhere(world, name);
    all.push(performance.now() - at);
    rounds.push((await agent.metric("switchback_agent_round_seconds")) * 1000);
    await delay(200);
  }
  report.figure({ name: "published-to-last-file-p50", value: percentile(all, 0.5), unit: "ms" });
  report.figure({ name: "published-to-last-file-p99", value: percentile(all, 0.99), unit: "ms" });
  report.figure({ name: "seen-to-last-file-p50", value: percentile(rounds, 0.5), unit: "ms" });
  report.figure({ name: "seen-to-last-file-p99", value: percentile(rounds, 0.99), unit: "ms", goal: 50 });
  progress("letting it come to rest");
  await delay(SWEEP_SECONDS * 3_500);
  progress(`idle for ${options.idleSeconds} s`);
  const before = cpuOf(agent.pid);
  await delay(options.idleSeconds * 1000);
  report.figure({ name: "idle-cpu", value: (cpuOf(agent.pid) - before) / options.idleSeconds, unit: "ms/s", goal: 2 });
  const { rss, peak } = memoryOf(agent.pid);
  report.figure({ name: "rss", value: rss * MB_PER_MIB, unit: "MB", goal: 70 });
  report.figure({ name: "rss-peak", value: peak * MB_PER_MIB, unit: "MB" });
}

/** Waits until the file of every pod has the name. */
async function everywhere({ uids, kubelet }: World, name: string): Promise<void> {
  const deadline = performance.now() + 30_000;
  for (const uid of uids) {
    while (!readFileSync(kubelet.path(uid), "latin1").includes(name)) {
      if (performance.now() > deadline) throw new Error(`${name} is not in the file of ${uid}`);
      await delay(2);
    }
  }
}

/** A map in the controller's format, written by the benchmark. */
class PublishedNames {
  readonly #cluster: ControlPlane;
  readonly #shards = new Shards();
  readonly names: string[];

  constructor(cluster: ControlPlane, count: number) {
    this.#cluster = cluster;
    this.names = Array.from({ length: count }, (_, index) => `app-${index}.team-${index % 50}.example.com`);
    for (const name of this.names) this.#shards.set(name, ADDRESS);
  }

  async start(): Promise<void> {
    for (const name of [NAMESPACE, AGENTS]) {
      await call(this.#cluster, "POST", "/api/v1/namespaces", { metadata: { name } });
    }
    await this.#publish();
  }

  async add(name: string): Promise<void> {
    this.#shards.set(name, ADDRESS);
    await this.#publish();
  }

  readonly #written = new Map<string, string>();

  async #publish(): Promise<void> {
    const rendered = this.#shards.render();
    for (const { index, text, shardHash } of rendered) {
      const name = SHARD_NAMES[index] ?? "";
      if (this.#written.get(name) !== shardHash) await this.#write(name, { [SHARD_KEY]: text });
      this.#written.set(name, shardHash);
    }
    const shards = rendered.map(({ index, shardHash }) => ({ name: SHARD_NAMES[index] ?? "", revision: shardHash }));
    await this.#write(INDEX_NAME, {
      [INDEX_KEY]: renderIndex({ revision: mapRevisionOf(rendered), shards }),
    });
  }

  async #write(name: string, data: Record<string, string>): Promise<void> {
    const metadata = { name, namespace: NAMESPACE, labels: { [MAP_KEY]: "hosts" } };
    const path = `/api/v1/namespaces/${NAMESPACE}/configmaps/${name}?fieldManager=bench&force=true`;
    await call(
      this.#cluster,
      "PATCH",
      path,
      { apiVersion: "v1", kind: "ConfigMap", metadata, data },
      "application/apply-patch+yaml",
    );
  }
}

/** Creates the node's injected pods and their files; returns the uids. */
async function makePods(
  cluster: ControlPlane,
  kubelet: KubeletFiles,
  map: PublishedNames,
  options: NodeOptions,
): Promise<string[]> {
  const labels = { "switchback.dev/inject": "enabled" };
  await call(cluster, "POST", "/api/v1/namespaces", {
    metadata: { name: "live", labels, annotations: { "switchback.dev/on-change": "live" } },
  });
  await call(cluster, "POST", "/api/v1/namespaces/live/serviceaccounts", { metadata: { name: "default" } });
  const specs = Array.from({ length: options.kinds }, (_, kind) => specOf(map.names.slice(kind)));
  const uids: string[] = [];
  for (let index = 0; index < options.pods; index += 1) {
    const { aliases, annotations, lines } = specs[index % specs.length] as InjectedSpec;
    const body = {
      metadata: { name: `app-${index}`, labels: { app: `app-${index}`, ...labels }, annotations },
      spec: { nodeName: NODE, hostAliases: aliases, containers: [{ name: "main", image: "example.com/main:1" }] },
    };
    const { metadata } = (await call(cluster, "POST", "/api/v1/namespaces/live/pods", body)) as {
      metadata: { uid: string };
    };
    uids.push(metadata.uid);
    const own = `10.32.0.${index}\tapp-${index}`;
    kubelet.write(metadata.uid, `\n# Entries added by HostAliases.\n${lines}`, own);
  }
  return uids;
}

interface InjectedSpec extends Pick<ReturnType<typeof buildManagedAliases>, "aliases" | "annotations"> {
  /** The lines that the kubelet writes for these aliases. */
  readonly lines: string;
}

/** What the webhook gives a pod if the map has these names. */
function specOf(names: readonly string[]): InjectedSpec {
  const published = publishedMapOf("bench", new Map(names.map((name) => [name, ADDRESS])));
  const { aliases, annotations } = buildManagedAliases(createSelector(published, MAX_NAMES)(undefined), []);
  return {
    aliases,
    annotations,
    lines: aliases.map(({ ip, hostnames }) => `${ip}\t${hostnames.join("\t")}\n`).join(""),
  };
}

async function call(
  cluster: ControlPlane,
  method: string,
  path: string,
  body: object,
  contentType = "application/json",
): Promise<unknown> {
  const answer = await cluster.call({ method, path, body, contentType });
  if (answer.status >= 300)
    throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Starts `switchback agent` with the Node flags of the chart. */
async function startAgent(
  cluster: ControlPlane,
  kubelet: KubeletFiles,
  program: string,
  folder: string,
): Promise<Agent> {
  const [port = 0] = await freePorts(1);
  const account = join(folder, "service-account");
  mkdirSync(account);
  for (const [name, text] of Object.entries({
    token: cluster.adminToken,
    "ca.crt": cluster.ca.cert,
    namespace: NAMESPACE,
  }))
    writeFileSync(join(account, name), text, { mode: 0o600 });
  const mount = join(folder, "mount.mjs");
  writeFileSync(mount, stripTypeScriptTypes(readFileSync(join(import.meta.dirname, "..", "mount.ts"), "utf8")));
  const values = parse(
    readFileSync(join(import.meta.dirname, "..", "..", "..", "manifests", "chart", "values.yaml"), "utf8"),
  );
  const settings = [
    `agent.node=${NODE}`,
    `agent.kubeletRoot=${kubelet.root}`,
    `agent.healthPort=${port}`,
    `agent.sweepSeconds=${SWEEP_SECONDS}`,
    "agent.address=127.0.0.1",
  ];
  const { hostname, port: apiPort } = new URL(cluster.url);
  const child = spawn(
    process.execPath,
    [...values.agent.nodeFlags, "--import", mount, program, "agent", "--set", ...settings],
    {
      env: {
        PATH: process.env.PATH,
        POD_NAME: "agent-0",
        KUBERNETES_SERVICE_HOST: hostname,
        KUBERNETES_SERVICE_PORT: apiPort,
        BENCH_SERVICE_ACCOUNT: account,
        // Same as in the chart's agent.yaml.
        MALLOC_ARENA_MAX: "1",
        MALLOC_TRIM_THRESHOLD_: "524288",
      },
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
  };
  const deadline = performance.now() + 60_000;
  while (
    (await metric("switchback_agent_in_step").catch(() => 0)) !== 1 ||
    (await metric("switchback_agent_pods")) === 0
  ) {
    if (performance.now() > deadline || child.exitCode !== null) throw new Error("the agent does not get ready");
    await delay(100);
  }
  return { pid: child.pid ?? 0, child, metric };
}
