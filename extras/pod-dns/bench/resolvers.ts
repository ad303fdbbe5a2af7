import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { binary } from "#test/cluster/binaries.ts";
import { goProgram, muslProgram } from "#test/cluster/images.ts";
import { run as runProgram } from "#test/cluster/node/run.ts";
import { programCommand } from "#test/e2e/programs/run.ts";
import { type CoreDns, CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { ROOT } from "#tools/bench/chart.ts";
import { createReporter, progress } from "#tools/bench/report.ts";
import { dnsMapOf } from "../dns-map.ts";
import { startResolver } from "../integration/start-resolver.ts";
import { MapFiles } from "../map-files.ts";
import { buildDnsConfig, readClusterDns } from "../webhook/dns-config.ts";

// Measures what glibc, musl and Go notice of faults that would break the DNS of a whole node of the tests. It runs in
// its own network namespace. There, two real CoreDNS are the resolvers, and a third one is the DNS of the cluster.
// The resolv.conf is the one that the webhook makes for a pod.

const RESOLVERS = ["127.0.0.11", "127.0.0.12"];
const NAME = "exact.faults.example.com";
const SERVICE = "kubernetes.default.svc.cluster.local";
/** Names to look up. If a name ends with a dot, the search domains are skipped. */
const ASKED = [NAME, `${NAME}.`, SERVICE];
const CLUSTER_ZONE = `$ORIGIN cluster.local.
@ 5 IN SOA ns.cluster.local. nobody.invalid. 1 5 5 5 5
kubernetes.default.svc 5 IN A 192.0.2.80
`;
const PERIOD_MS = 15;

interface Servers {
  readonly cluster: CoreDns;
  readonly resolvers: readonly CoreDns[];
}

const gone = async (servers: readonly CoreDns[]): Promise<void> => {
  await Promise.all(servers.map(({ process }) => process.stop("SIGKILL")));
};
const silent = async (servers: readonly CoreDns[]): Promise<void> => {
  for (const { process: server } of servers) process.kill(server.pid, "SIGSTOP");
};

/**
 * Faults. A server that is gone refuses at once, like a Service without endpoints. Clients wait for a silent server.
 */
const FAULTS: Readonly<Record<string, (servers: Servers) => Promise<void>>> = {
  "nothing fails": async () => {},
  "the first resolver is silent": ({ resolvers }) => silent(resolvers.slice(0, 1)),
  "the DNS of the cluster is gone": ({ cluster }) => gone([cluster]),
  "the DNS of the cluster is silent": ({ cluster }) => silent([cluster]),
  "both resolvers are gone": ({ resolvers }) => gone(resolvers),
  "both resolvers are silent": ({ resolvers }) => silent(resolvers),
};

/** `npm run bench -- resolvers [--json] [--seconds 12]`. Needs Go, musl-gcc, and root, for namespaces. */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: {
      json: { type: "boolean", default: false },
      seconds: { type: "string", default: "12" },
      // Internal: set for the process inside the namespaces, with the folder of the clients.
      inside: { type: "string" },
    },
  });
  if (values.inside === undefined) return await runInside(argv);
  const clients = clientsOf(values.inside);
  await enterPod(values.inside);
  const report = createReporter("resolvers", values.json);
  for (const [fault, begin] of Object.entries(FAULTS)) {
    for (const name of ASKED) {
      progress(`${fault}: ${name}`);
      const bed = new CoreDnsBed();
      try {
        await begin(await startServers(bed));
        const args = ["repeat", values.seconds, String(PERIOD_MS), name];
        const counts = await Promise.all(clients.map(({ command }) => countsOf([...command, ...args])));
        report.section({ fault, name });
        for (const [index, { lookups, failed, slowestMs }] of counts.entries()) {
          const client = clients[index]?.name;
          report.figure({ name: `${client}-look-ups`, value: lookups, unit: "" });
          report.figure({ name: `${client}-look-ups-failed`, value: failed, unit: "" });
          report.figure({ name: `${client}-slowest`, value: slowestMs, unit: "ms" });
        }
      } finally {
        await bed.stop();
      }
    }
  }
}

/** Builds the clients, which needs the network outside. Then runs this benchmark in its own namespaces. */
async function runInside(argv: string[]): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-bench-resolvers-"));
  try {
    await binary("coredns");
    await Promise.all([goProgram("client", folder), muslProgram("resolve", folder)]);
    const itself = [process.execPath, join(ROOT, "tools", "bench", "main.ts"), "resolvers", ...argv];
    const inside = spawn("unshare", ["--net", "--mount", ...itself, "--inside", folder], { stdio: "inherit" });
    const [code] = (await once(inside, "exit")) as [number | null];
    if (code !== 0) throw new Error(`inside, it ended with ${code}`);
  } finally {
    await rm(folder, { recursive: true });
  }
}

function clientsOf(folder: string) {
  const [, ...glibc] = programCommand("client");
  return [
    { name: "glibc", command: [process.execPath, ...glibc] },
    { name: "musl", command: [join(folder, "resolve")] },
    { name: "go", command: [join(folder, "client")] },
  ];
}

/** Makes this process resolve names as a pod does. */
async function enterPod(folder: string): Promise<void> {
  const own = "search own.svc.cluster.local svc.cluster.local cluster.local\nnameserver 192.0.2.10\noptions ndots:5\n";
  const cluster = readClusterDns(own, "own");
  if ("code" in cluster) throw new Error(cluster.text);
  const config = buildDnsConfig({ resolvers: RESOLVERS, cluster }, "shop");
  const lines = [
    `search ${config?.searches?.join(" ")}`,
    ...RESOLVERS.map((address) => `nameserver ${address}`),
    `options ${config?.options?.map(({ name, value }) => (value === undefined ? name : `${name}:${value}`)).join(" ")}`,
  ];
  const file = join(folder, "resolv.conf");
  await writeFile(file, `${lines.join("\n")}\n`);
  await runProgram("mount", "--bind", file, "/etc/resolv.conf");
  await runProgram("ip", "link", "set", "lo", "up");
}

async function startServers(bed: CoreDnsBed): Promise<Servers> {
  const cluster = await bed.upstream("cluster", { "cluster.local.": CLUSTER_ZONE });
  const directory = join(bed.folder, "files");
  await mkdir(directory);
  const map = dnsMapOf("1", new Map([[NAME, ["198.51.100.9"]]]));
  await new MapFiles({ directory, ttl: 5, revision: "bench", seconds: () => 1 }).write(map);
  const upstream = `${LOCAL}:${cluster.port}`;
  const resolvers: CoreDns[] = [];
  for (const address of RESOLVERS) {
    resolvers.push(await startResolver(bed, address, { directory, upstream, address, port: 53 }));
  }
  return { cluster, resolvers };
}

interface Counts {
  readonly lookups: number;
  readonly failed: number;
  readonly slowestMs: number;
}

async function countsOf([command = "", ...args]: string[]): Promise<Counts> {
  const { stdout } = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  return JSON.parse(await text(stdout)) as Counts;
}
