import { join } from "node:path";
import { HOSTS_FILE, ZONE_FILE } from "./corefile.ts";
import type { DnsMap } from "./dns-map.ts";
import { healthLine } from "./hosts-file.ts";
import { wildcardRecords, wildcardsOf, wildcardZone } from "./wildcard-zone.ts";
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

  constructor({ directory, ttl, revision, seconds }: MapFilesOptions) {
    this.#directory = directory;
    this.#ttl = ttl;
    this.#health = healthLine(revision);
    this.#seconds = seconds;
  }

  /** Writes what has changed since the last call that succeeded. Rejects if a file cannot be written; the files stay whole. */
  async write(map: DnsMap): Promise<void> {
    if (map.revision === this.#revision) return;
    const records = wildcardRecords(wildcardsOf(map.parts), this.#ttl);
    if (records !== this.#records) {
      this.#serial = Math.max(this.#serial + 1, this.#seconds());
      await replaceFile(join(this.#directory, ZONE_FILE), wildcardZone(records, this.#serial, this.#ttl));
      this.#records = records;
    }
    await replaceFile(join(this.#directory, HOSTS_FILE), [this.#health, ...map.parts.map(({ hosts }) => hosts)]);
    this.#revision = map.revision;
  }
}
