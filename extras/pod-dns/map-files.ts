import { join } from "node:path";
import { LeftOut } from "#hostmap/protected-names.ts";
import { HOSTS_FILE, ZONE_FILE } from "./corefile.ts";
import type { DnsMap } from "./dns-map.ts";
import { healthLine } from "./hosts-file.ts";
import { chooseWildcards, type Wildcards, wildcardRecords, wildcardsOf, wildcardZone } from "./wildcard-zone.ts";
import { replaceFile } from "./write-file.ts";

interface MapFilesOptions {
  readonly directory: string;
  /** Of the records, seconds. */
  readonly ttl: number;
  /** Of the rollout. */
  readonly revision: string;
  /** Seconds since 1970: a zone's serial has to differ from that of the process before. */
  readonly seconds: () => number;
}

interface Rendered {
  readonly of: readonly Wildcards[];
  readonly records: string;
  readonly leftOut: LeftOut;
}

/** Writes a map as the files that CoreDNS reads. */
export class MapFiles {
  readonly #directory: string;
  readonly #ttl: number;
  readonly #seconds: () => number;
  readonly #health: string;
  /** As they were last written. */
  #revision: string | undefined;
  #records: string | undefined;
  #serial = 0;
  /** The wildcards of the last map, their records, and those without. */
  #rendered: Rendered = { of: [], records: "", leftOut: new LeftOut() };

  constructor({ directory, ttl, revision, seconds }: MapFilesOptions) {
    this.#directory = directory;
    this.#ttl = ttl;
    this.#health = healthLine(revision);
    this.#seconds = seconds;
  }

  /**
   * Writes what has changed since the last call that succeeded. Rejects if a file cannot be written; the files stay
   * whole. Returns the names of the map that are not in them.
   */
  async write(map: DnsMap): Promise<LeftOut> {
    const { records, leftOut: wildcards } = this.#recordsOf(map);
    const leftOut = new LeftOut();
    for (const part of map.parts) leftOut.addAll(part.leftOut);
    leftOut.addAll(wildcards);
    if (map.revision === this.#revision) return leftOut;
    if (records !== this.#records) {
      this.#serial = Math.max(this.#serial + 1, this.#seconds());
      await replaceFile(join(this.#directory, ZONE_FILE), wildcardZone(records, this.#serial, this.#ttl));
      this.#records = records;
    }
    await replaceFile(join(this.#directory, HOSTS_FILE), [this.#health, ...map.parts.map(({ hosts }) => hosts)]);
    this.#revision = map.revision;
    return leftOut;
  }

  /** Wildcards change seldom: what does not change costs nothing. */
  #recordsOf({ parts }: DnsMap): Rendered {
    const found = parts.map(({ wildcards }) => wildcards).filter(({ size }) => size > 0);
    const rendered = this.#rendered;
    const isSame = found.length === rendered.of.length && found.every((each, at) => each === rendered.of[at]);
    if (isSame) return rendered;
    const { kept, leftOut } = chooseWildcards(wildcardsOf(parts));
    this.#rendered = { of: found, records: wildcardRecords(kept, this.#ttl), leftOut };
    return this.#rendered;
  }
}
