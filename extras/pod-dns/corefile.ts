/** What a Corefile depends on. It does not depend on the map, so CoreDNS never has to reload it. */
export interface CorefileOptions {
  /** Where hosts file and zone file are. */
  readonly directory: string;
  /** Address and ports that CoreDNS binds; `::` is every address. */
  readonly address: string;
  readonly port: number;
  readonly healthPort: number;
  readonly readyPort: number;
  readonly metricsPort: number;
  /** A resolv.conf, or the address of a server. */
  readonly upstream: string;
  /** Names at or below these always come from the upstream, whatever a wildcard covers. */
  readonly clusterDomains: readonly string[];
  /** Of our records, seconds. */
  readonly ttl: number;
  /** How often CoreDNS looks whether the files have changed, milliseconds. */
  readonly reloadMs: number;
}

/** The files, in the directory that the sidecar shares with CoreDNS. */
export const COREFILE = "Corefile";
export const HOSTS_FILE = "hosts";
export const ZONE_FILE = "wildcards.zone";

/**
 * Look-ups that wait for the upstream at once, in each server block; more are refused, and the asking pod turns to
 * the other resolver. Each takes about 2 KB, so that an upstream that is away does not end the resolvers.
 */
const MAX_CONCURRENT = 1_000;

/**
 * The Corefile of the resolvers. A name of ours is answered for A and AAAA only: all other types are the
 * upstream's, such as the TXT records of DNS-01. `view` does this with every CoreDNS, and decides before any plugin
 * runs. The plugins run in CoreDNS' own order: `hosts`, `file`, `forward`.
 */
export function renderCorefile(options: CorefileOptions): string {
  const { address, port, upstream, clusterDomains, ttl } = options;
  const everywhere = address === "::";
  const bound = (of: number) => `${everywhere ? "" : address.includes(":") ? `[${address}]` : address}:${of}`;
  const common = [...(everywhere ? [] : [`bind ${address}`]), "errors", `prometheus ${bound(options.metricsPort)}`];
  const forward = block(`forward . ${upstream}`, [`max_concurrent ${MAX_CONCURRENT}`]);
  const reload = `reload ${options.reloadMs}ms`;
  const ours = [
    ...block("view addresses", ["expr type() in ['A', 'AAAA']"]),
    ...common,
    ...block(`hosts ${options.directory}/${HOSTS_FILE}`, [`ttl ${ttl}`, "no_reverse", reload, "fallthrough"]),
    ...block(`file ${options.directory}/${ZONE_FILE} .`, [reload, "fallthrough"]),
    ...forward,
  ];
  const others = [...common, `health ${bound(options.healthPort)}`, `ready ${bound(options.readyPort)}`, ...forward];
  const cluster = [...common, ...forward];
  const servers = [
    ...(clusterDomains.length === 0
      ? []
      : [block(clusterDomains.map((domain) => `${domain}:${port}`).join(" "), cluster)]),
    block(`.:${port}`, ours),
    block(`.:${port}`, others),
  ];
  return `${servers.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

function block(head: string, lines: readonly string[]): string[] {
  return [`${head} {`, ...lines.map((line) => `    ${line}`), "}"];
}
