import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type CoreDns, type CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { Asking } from "#tools/bench/asking.ts";
import { cpuOf } from "#tools/bench/process.ts";
import { percentile, progress, type Reporter } from "#tools/bench/report.ts";
import { dnsMapOf } from "../../dns-map.ts";
import { startResolver } from "../../integration/start-resolver.ts";
import { MapFiles } from "../../map-files.ts";

// Measures what a name of the cluster costs through a resolver. Compares it with the DNS of the cluster, asked
// directly, and with a CoreDNS that only forwards. The three are asked in turn, because the load of the machine
// changes.

const NAME = "api.default.svc.cluster.local";
const ROUNDS = 20;
const WARM_UP = 200;
/**
 * Concurrent look-ups of the second measurement. They keep threads of CoreDNS awake, as in a resolver that many pods
 * use.
 */
const AT_ONCE = 16;

type Way = "direct" | "ours" | "plain";

interface Spent {
  readonly times: number[];
  /** CPU time of the server, and of the DNS of the cluster behind it, milliseconds. */
  server: number;
  cluster: number;
}

/** Reports the cost of look-ups one after another, and of many at once. */
export async function clusterNameCost(
  bed: CoreDnsBed,
  upstream: CoreDns,
  { folder, count, reloadMs }: { readonly folder: string; readonly count: number; readonly reloadMs: number },
  report: Reporter,
): Promise<void> {
  const directory = join(folder, "cost");
  await mkdir(directory);
  const names = Array.from({ length: 100 }, (_, at) => [`host-${at}.example.com`, ["198.51.100.9"]] as const);
  await new MapFiles({ directory, ttl: 5, revision: "bench", seconds: () => 1 }).write(dnsMapOf("1", new Map(names)));
  const to = `${LOCAL}:${upstream.port}`;
  const servers: Readonly<Record<Way, CoreDns>> = {
    direct: upstream,
    ours: await startResolver(bed, "cost", { directory, upstream: to, reloadMs }),
    plain: await bed.forwarder("plain", to),
  };
  for (const atOnce of [1, AT_ONCE]) {
    progress(`${count} look-ups of a name of the cluster, ${atOnce} at once, by turns`);
    const spent = await measure(servers, count, atOnce);
    report.section({ "look-ups": count, "at once": atOnce });
    const p50 = (way: Way) => percentile(spent[way].times, 0.5) * 1_000;
    const more = (way: Way) => {
      const cpu = (of: Way) => spent[of].server + (of === "direct" ? 0 : spent[of].cluster);
      return (1_000 * (cpu(way) - cpu("direct"))) / count;
    };
    const isGoal = atOnce > 1;
    report.figure({ name: "cluster-name-direct-p50", value: p50("direct"), unit: "us" });
    report.figure({
      name: "cluster-name-added-p50",
      value: p50("ours") - p50("direct"),
      unit: "us",
      goal: isGoal ? undefined : 100,
    });
    report.figure({ name: "cluster-name-added-p50-plain", value: p50("plain") - p50("direct"), unit: "us" });
    report.figure({ name: "cluster-name-cpu", value: (1_000 * spent.ours.server) / count, unit: "us" });
    report.figure({ name: "cluster-name-cpu-plain", value: (1_000 * spent.plain.server) / count, unit: "us" });
    report.figure({ name: "cluster-name-cpu-direct", value: (1_000 * spent.direct.server) / count, unit: "us" });
    report.figure({
      name: "cluster-name-cpu-more",
      value: more("ours"),
      unit: "us",
      goal: isGoal ? 50 : undefined,
    });
  }
  await Promise.all([servers.ours.process.stop(), servers.plain.process.stop()]);
}

async function measure(
  servers: Readonly<Record<Way, CoreDns>>,
  count: number,
  atOnce: number,
): Promise<Record<Way, Spent>> {
  const ways = Object.keys(servers) as Way[];
  const asking = await Promise.all(ways.map(async (way) => [way, await Asking.of(servers[way], NAME)] as const));
  const spent: Record<Way, Spent> = { direct: none(), ours: none(), plain: none() };
  for (const [, client] of asking) await client.ask(WARM_UP, atOnce);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [way, client] of asking) {
      const pids = [servers[way].process.pid, servers.direct.process.pid] as const;
      const before = pids.map(cpuOf);
      spent[way].times.push(...(await client.ask(Math.ceil(count / ROUNDS), atOnce)));
      const [server = 0, cluster = 0] = pids.map((pid, at) => cpuOf(pid) - (before[at] ?? 0));
      spent[way].server += server;
      spent[way].cluster += cluster;
    }
  }
  for (const [, client] of asking) client.close();
  return spent;
}

function none(): Spent {
  return { times: [], server: 0, cluster: 0 };
}
