import { parseArgs } from "node:util";
import { type CoreDns, CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { Asking } from "#tools/bench/asking.ts";
import { cpuOf, memoryOf } from "#tools/bench/process.ts";
import { createReporter, percentile, progress, type Reporter } from "#tools/bench/report.ts";
import { parseCorefile } from "../corefile.ts";
import { markedBlock } from "../marked-block.ts";
import { renderServerBlocks } from "../server-blocks.ts";
import { serverZones } from "../server-zones.ts";

// What names in the cluster's own CoreDNS cost clients that ask for other names. It is compared with the same
// Corefile without them, and with a `template` for each name, as a person might write it. The servers take turns,
// because the machine sometimes has other work.

const ZONE = `$ORIGIN cluster.local.
@ 5 IN SOA ns.cluster.local. nobody.invalid. 1 5 5 5 5
api.default.svc 5 IN A 192.0.2.80
`;
const UNRELATED = "api.default.svc.cluster.local";
const ROUNDS = 40;
const WARM_UP = 500;
const AT_ONCE = 4;
const RELAY = "198.51.100.9";

type Way = "none" | "ours" | "templates";

/** Long names in the zone of a wildcard: one that it covers, one that it does not, and one in 30 zones of wildcards. */
const LONG = "x".repeat(60);
const LONG_NAMES = {
  covered: `${LONG}.${LONG}.${LONG}.t7.deep.example.com`,
  forwarded: `${LONG}.${LONG}.${LONG}.t7.flat.example.com`,
  nested: `${LONG}.${LONG}.${"a.".repeat(30)}nested.example.com`,
} as const;

/** `npm run bench -- publishers [--json] [--names 2000] [--wildcards 4000] [--look-ups 40000]`. */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: {
      json: { type: "boolean", default: false },
      names: { type: "string", default: "2000" },
      wildcards: { type: "string", default: "4000" },
      "look-ups": { type: "string", default: "40000" },
    },
  });
  const report = createReporter("publishers", values.json);
  const count = Number(values["look-ups"]);
  const names = Array.from({ length: Number(values.names) }, (_, at) => `shop-${at}.customers-${at % 50}.example.com`);
  const bed = new CoreDnsBed();
  try {
    const upstream = await bed.upstream("upstream", { "cluster.local.": ZONE });
    const base = (port: number, ready: string, more = "") =>
      `.:${port} {\n bind ${LOCAL}\n ready ${ready}\n reload\n${more} forward . ${LOCAL}:${upstream.port}\n}\n`;
    const servers: Record<Way, CoreDns> = {
      none: await bed.server("none", (port, ready) => base(port, ready)),
      ours: await bed.server("ours", (port, ready) => withOurs(base(port, ready), names)),
      templates: await bed.server("templates", (port, ready) => base(port, ready, templates(names))),
    };
    progress(`${count} look-ups of an unrelated name, by turns`);
    const spent = await measure(servers, UNRELATED, count);
    report.section({ names: names.length, "look-ups": count, "at once": AT_ONCE });
    const p50 = (way: Way) => percentile(spent[way].times, 0.5) * 1_000;
    const cpu = (way: Way) => (1_000 * spent[way].cpu) / count;
    for (const way of Object.keys(servers) as Way[]) {
      report.figure({ name: `unrelated-p50-${way}`, value: p50(way), unit: "us" });
      report.figure({ name: `unrelated-cpu-${way}`, value: cpu(way), unit: "us" });
      report.figure({ name: `memory-${way}`, value: memoryOf(servers[way].process.pid).rss, unit: "MiB" });
    }
    report.figure({ name: "unrelated-p50-ratio", value: p50("ours") / p50("none"), unit: "", goal: 1.1 });
    report.figure({ name: "unrelated-cpu-ratio", value: cpu("ours") / cpu("none"), unit: "", goal: 1.1 });
    report.figure({ name: "templates-p50-ratio", value: p50("templates") / p50("none"), unit: "" });
    report.figure({ name: "templates-cpu-ratio", value: cpu("templates") / cpu("none"), unit: "" });
    const wild = await bed.server("wild", (port, ready) =>
      withOurs(base(port, ready), wildcards(Number(values.wildcards))),
    );
    await longNames({ none: servers.none, wild }, { wildcards: Number(values.wildcards), count }, report);
  } finally {
    await bed.stop();
  }
}

/** Measures what wildcards of others cost a client that asks for a long name in one of their zones. */
async function longNames(
  servers: Readonly<Record<"none" | "wild", CoreDns>>,
  { wildcards, count }: { readonly wildcards: number; readonly count: number },
  report: Reporter,
): Promise<void> {
  report.section({ wildcards, "look-ups": count, "at once": AT_ONCE });
  for (const [what, name] of Object.entries(LONG_NAMES)) {
    progress(`${count} look-ups of a name of ${name.length} bytes, ${what}, by turns`);
    const spent = await measure(servers, name, count);
    const cpu = (way: "none" | "wild") => (1_000 * spent[way].cpu) / count;
    report.figure({ name: `long-name-cpu-${what}-none`, value: cpu("none"), unit: "us" });
    report.figure({ name: `long-name-cpu-${what}`, value: cpu("wild"), unit: "us" });
    const goal = what === "nested" ? undefined : 1.1;
    report.figure({ name: `long-name-cpu-${what}-ratio`, value: cpu("wild") / cpu("none"), unit: "", goal });
  }
}

/** Wildcards of both kinds, and 30 wildcards below each other. */
function wildcards(count: number): string[] {
  const nested = Array.from({ length: 30 }, (_, at) => `*.${"a.".repeat(at)}nested.example.com`);
  const others = Array.from({ length: count - nested.length }, (_, at) =>
    at % 2 === 0 ? `**.t${at + 1}.deep.example.com` : `*.t${at}.flat.example.com`,
  );
  return [...nested, ...others];
}

function withOurs(corefile: string, names: readonly string[]): string {
  const parsed = parseCorefile(corefile);
  if (typeof parsed === "string") throw new Error(parsed);
  const { listen, taken } = serverZones(parsed);
  if (listen === undefined) throw new Error("no server block of the root");
  const map = { revision: "bench", entries: names.map((name) => [name, [RELAY]] as const) };
  const options = { publisher: "coredns", listen, taken, first: true, ttl: 5, maxBytes: 900_000 };
  return markedBlock(renderServerBlocks(map, options).text, "coredns", "bench") + corefile;
}

function templates(names: readonly string[]): string {
  const one = (name: string) => ` template IN A ${name} {\n  answer "{{ .Name }} 5 IN A ${RELAY}"\n  fallthrough\n }\n`;
  return names.map(one).join("");
}

async function measure<W extends string>(servers: Readonly<Record<W, CoreDns>>, name: string, count: number) {
  const none = () => ({ times: [] as number[], cpu: 0 });
  const ways = Object.keys(servers) as W[];
  const spent = Object.fromEntries(ways.map((way) => [way, none()])) as Record<W, ReturnType<typeof none>>;
  const asking = await Promise.all(ways.map(async (way) => [way, await Asking.of(servers[way], name)] as const));
  for (const [, client] of asking) await client.ask(WARM_UP, AT_ONCE);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [way, client] of asking) {
      const { pid } = servers[way].process;
      const before = cpuOf(pid);
      spent[way].times.push(...(await client.ask(Math.ceil(count / ROUNDS), AT_ONCE)));
      spent[way].cpu += cpuOf(pid) - before;
    }
  }
  for (const [, client] of asking) client.close();
  return spent;
}
