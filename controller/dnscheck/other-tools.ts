import type { DnsLookup } from "./lookup.ts";

/**
 * The Services of tools with the same purpose, as `name.namespace`. These tools make the cluster's DNS answer with
 * their ClusterIPs, and docs/migrating.md runs them beside us. The tools are compumike/hairpin-proxy,
 * dextercrypt/hairpin-proxy-gen2 and ouroboros.
 */
const SERVICES = ["hairpin-proxy.hairpin-proxy", "haproxy-nginx.hairpin-proxy-gen2", "ouroboros-proxy.ouroboros"];
const REFRESH_MS = 60_000;

/** The addresses of other tools. They are looked up in the cluster's DNS, which needs no permission. */
export class OtherTools {
  readonly #lookup: DnsLookup;
  readonly #names: readonly string[];
  readonly #addresses = new Map<string, readonly string[]>();
  #timer: NodeJS.Timeout | undefined;
  #asked = false;

  constructor(lookup: DnsLookup, clusterDomain: string | undefined) {
    this.#lookup = lookup;
    this.#names = clusterDomain === undefined ? [] : SERVICES.map((name) => `${name}.svc.${clusterDomain}`);
  }

  start(): void {
    void this.refresh();
    this.#timer = setInterval(() => void this.refresh(), REFRESH_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** True once every tool was looked up. */
  get known(): boolean {
    return this.#asked;
  }

  has(address: string): boolean {
    for (const addresses of this.#addresses.values()) if (addresses.includes(address)) return true;
    return false;
  }

  /** Looks up every tool. A tool keeps its addresses if there is no answer. */
  async refresh(): Promise<void> {
    const ask = async (name: string) => {
      const answers = await Promise.all(([4, 6] as const).map((family) => this.#lookup(name, family)));
      this.#addresses.set(
        name,
        answers.flatMap(({ addresses }) => addresses),
      );
    };
    await Promise.allSettled(this.#names.map(ask));
    this.#asked = true;
  }
}
