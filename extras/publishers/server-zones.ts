import type { Corefile } from "./corefile.ts";

/** The parts of a cluster's Corefile that matter for server blocks beside its own. */
export interface ServerZones {
  /**
   * Where the cluster's DNS listens: the port, and the addresses of `bind`. Undefined if no server block answers
   * everything.
   */
  readonly listen: { readonly port: number; readonly bind: readonly string[] } | undefined;
  /** Zones of the server blocks on this port that answer every question, in lower case, without the last dot. */
  readonly taken: ReadonlySet<string>;
  /** Patterns that are imported inside the server block that answers everything. */
  readonly imports: readonly string[];
  /** Whether CoreDNS reads the files again when they change. */
  readonly reloads: boolean;
}

const KEY = /^(?:([a-z]+):\/\/)?(.*?)(?::(\d+))?$/i;
const DNS_PORT = 53;

/** `others`: files with server blocks that the Corefile imports. */
export function serverZones(corefile: Corefile, others: readonly Corefile[] = []): ServerZones {
  const blocks = [corefile, ...others].flatMap((file) => file.blocks);
  const zones = blocks.flatMap(({ keys, ...content }) => keys.map((key) => ({ ...zoneOf(key), ...content })));
  const root = zones.find(({ scheme, zone }) => scheme === "dns" && zone === "");
  const port = root?.port ?? DNS_PORT;
  const bind = root?.directives.find(({ name }) => name === "bind")?.args ?? [];
  // A block with a view answers only some questions. Ours have one.
  const taken = zones.filter(
    (each) => each.scheme === "dns" && each.port === port && !each.directives.some(({ name }) => name === "view"),
  );
  return {
    listen: root && { port, bind },
    imports: root?.imports ?? [],
    taken: new Set(taken.map(({ zone }) => zone)),
    reloads: blocks.some(({ directives }) => directives.some(({ name }) => name === "reload")),
  };
}

function zoneOf(key: string): { readonly scheme: string; readonly zone: string; readonly port: number } {
  const [, scheme = "dns", zone = "", port] = KEY.exec(key) ?? [];
  return {
    scheme: scheme.toLowerCase(),
    zone: zone.toLowerCase().replace(/\.$/, ""),
    port: port === undefined ? DNS_PORT : Number(port),
  };
}
