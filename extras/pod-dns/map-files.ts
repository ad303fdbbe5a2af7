import { join } from "node:path";
import { LeftOut } from "#extras/left-out.ts";
import { HOSTS_FILE, TTL_SECONDS, ZONE_FILE } from "./corefile.ts";
import type { DnsMap } from "./dns-map.ts";
import { healthLine } from "./hosts-file.ts";
import { chooseWildcards, wildcardRecords, wildcardZone } from "./wildcard-zone.ts";
import { replaceFile } from "./write-file.ts";

interface MapFilesOptions {
  readonly directory: string;
  /** Revision of the rollout. */
  readonly revision: string;
  /** Seconds since 1970. The zone's serial starts there, so that it differs from the previous process'. */
  readonly seconds: () => number;
}

/** Writes a map as the files that CoreDNS reads. */
export class MapFiles {
  readonly #directory: string;
  readonly #seconds: () => number;
  readonly #health: string;
  /** The revision and the records that were last written. */
  #revision: string | undefined;
  #records: string | undefined;
  #serial = 0;

  constructor({ directory, revision, seconds }: MapFilesOptions) {
    this.#directory = directory;
    this.#health = healthLine(revision);
    this.#seconds = seconds;
  }

  /**
   * Writes what has changed since the last call that succeeded. Rejects if a file cannot be written: no file is then
   * half written. Returns the names of the map that are not in the files.
   */
  async write(map: DnsMap): Promise<LeftOut> {
    const wildcards = chooseWildcards(map.wildcards);
    const records = wildcardRecords(wildcards.kept, TTL_SECONDS);
    const leftOut = new LeftOut();
    leftOut.addAll(map.leftOut);
    leftOut.addAll(wildcards.leftOut);
    if (map.revision === this.#revision) return leftOut;
    if (records !== this.#records) {
      this.#serial = Math.max(this.#serial + 1, this.#seconds());
      await replaceFile(join(this.#directory, ZONE_FILE), wildcardZone(records, this.#serial, TTL_SECONDS));
      this.#records = records;
    }
    await replaceFile(join(this.#directory, HOSTS_FILE), [this.#health, map.hosts]);
    this.#revision = map.revision;
    return leftOut;
  }
}
