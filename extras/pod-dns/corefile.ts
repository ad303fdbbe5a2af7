/** Inputs of a Corefile. The map is not one of them, so CoreDNS never has to reload the Corefile. */
export interface CorefileOptions {
  /** Directory of the hosts file and the zone file. */
  readonly directory: string;
  /** Address and ports that CoreDNS binds; `::` is every address. */
  readonly address: string;
  /** Default: those of the chart. */
  readonly ports?: CoreDnsPorts;
  /** A resolv.conf, or the address of a server. */
  readonly upstream: string;
  /** Names at or below these always come from the upstream, whatever a wildcard covers. */
  readonly clusterDomains: readonly string[];
}

/** The ports of a CoreDNS. */
interface CoreDnsPorts {
  /** Look-ups, UDP and TCP. */
  readonly dns: number;
  /** The plugin `health`. */
  readonly health: number;
  /** The plugin `ready`. */
  readonly ready: number;
  readonly metrics: number;
}

/** Ports in the resolvers' own pods. None is below 1024, which needs a right. */
const PORTS: CoreDnsPorts = { dns: 1053, health: 8085, ready: 8086, metrics: 9153 };
/** TTL of our records: how long a client that caches may keep an address, in seconds. */
export const TTL_SECONDS = 5;
/** How often CoreDNS checks whether the files have changed, in milliseconds. The files are small and in memory. */
const RELOAD_MS = 100;

/** Names of the files, in the directory that the sidecar shares with CoreDNS. */
export const COREFILE = "Corefile";
export const HOSTS_FILE = "hosts";
export const ZONE_FILE = "wildcards.zone";

/**
 * Maximum number of look-ups that wait for the upstream, in each server block. CoreDNS refuses more, and the pod asks
 * the other resolver. Each takes about 2 KB, so the limit keeps the resolvers alive while the upstream is away.
 */
const MAX_CONCURRENT = 1_000;

/**
 * Renders the Corefile of the resolvers. They answer our names for A and AAAA only. All other types, such as the TXT
 * records of DNS-01, come from the upstream. The `view` plugin decides this, before any other plugin runs. Every
 * CoreDNS has it. The plugins run in CoreDNS' own order: `hosts`, `file`, `forward`.
 */
export function renderCorefile(options: CorefileOptions): string {
  const { address, upstream, clusterDomains, ports = PORTS } = options;
  const everywhere = address === "::";
  const bound = (of: number) => `${everywhere ? "" : address.includes(":") ? `[${address}]` : address}:${of}`;
  const common = [...(everywhere ? [] : [`bind ${address}`]), "errors", `prometheus ${bound(ports.metrics)}`];
  const forward = block(`forward . ${upstream}`, [`max_concurrent ${MAX_CONCURRENT}`]);
  const reload = `reload ${RELOAD_MS}ms`;
  const ours = [
    ...block("view addresses", ["expr type() in ['A', 'AAAA']"]),
    ...common,
    ...block(`hosts ${options.directory}/${HOSTS_FILE}`, [`ttl ${TTL_SECONDS}`, "no_reverse", reload, "fallthrough"]),
    ...block(`file ${options.directory}/${ZONE_FILE} .`, [reload, "fallthrough"]),
    ...forward,
  ];
  const others = [...common, `health ${bound(ports.health)}`, `ready ${bound(ports.ready)}`, ...forward];
  const cluster = [...common, ...forward];
  const servers = [
    ...(clusterDomains.length === 0
      ? []
      : [block(clusterDomains.map((domain) => `${domain}:${ports.dns}`).join(" "), cluster)]),
    block(`.:${ports.dns}`, ours),
    block(`.:${ports.dns}`, others),
  ];
  return `${servers.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

function block(head: string, lines: readonly string[]): string[] {
  return [`${head} {`, ...lines.map((line) => `    ${line}`), "}"];
}
