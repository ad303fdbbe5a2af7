import { join } from "node:path";
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
  /**
   * Called with the wildcards that have no records, since they lie too far below another one, whenever wildcards
   * have changed.
   */
  readonly onTooDeep?: (tooDeep: readonly string[]) => void;
}

/** Writes a map as the files that CoreDNS reads. */
export class MapFiles {
  readonly #directory: string;
  readonly #ttl: number;
  readonly #seconds: () => number;
  readonly #health: string;
  readonly #onTooDeep: MapFilesOptions["onTooDeep"];
  /** As they were last written. */
  #revision: string | undefined;
  #records: string | undefined;
  #serial = 0;
  /** The wildcards of the last map, and their records. */
  #rendered: { readonly of: readonly Wildcards[]; readonly records: string } = { of: [], records: "" };

  constructor({ directory, ttl, revision, seconds, onTooDeep }: MapFilesOptions) {
    this.#directory = directory;
    this.#ttl = ttl;
    this.#health = healthLine(revision);
    this.#seconds = seconds;
    this.#onTooDeep = onTooDeep;
  }

  /**
   * Writes what has changed since the last call that succeeded. Rejects if a file cannot be written; the files stay
   * whole.
   */
  async write(map: DnsMap): Promise<void> {
    if (map.revision === this.#revision) return;
    const records = this.#recordsOf(map);
    if (records !== this.#records) {
      this.#serial = Math.max(this.#serial + 1, this.#seconds());
      await replaceFile(join(this.#directory, ZONE_FILE), wildcardZone(records, this.#serial, this.#ttl));
      this.#records = records;
    }
    await replaceFile(join(this.#directory, HOSTS_FILE), [this.#health, ...map.parts.map(({ hosts }) => hosts)]);
    this.#revision = map.revision;
  }

  /** Wildcards change seldom: what does not change costs nothing. */
  #recordsOf({ parts }: DnsMap): string {
    const found = parts.map(({ wildcards }) => wildcards).filter(({ size }) => size > 0);
    const rendered = this.#rendered;
    const isSame = found.length === rendered.of.length && found.every((each, at) => each === rendered.of[at]);
    if (isSame) return rendered.records;
    const { kept, tooDeep } = chooseWildcards(wildcardsOf(parts));
    this.#onTooDeep?.(tooDeep);
    this.#rendered = { of: found, records: wildcardRecords(kept, this.#ttl) };
    return this.#rendered.records;
  }
}
