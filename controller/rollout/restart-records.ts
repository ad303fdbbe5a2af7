import { shortHash } from "#hostmap/hash.ts";
import type { Reason } from "#hostmap/types.ts";
import { timeSlices } from "#lib/kube/time.ts";
import {
  FULL_MAP_BYTES,
  MAX_MAP_BYTES,
  RECORD_MAPS,
  RecordMap,
  type RecordMapDeps,
  recordBytes,
} from "./record-map.ts";
import { begunAt, DAY_MS, decodeRecord, encodeRecord, type History } from "./restart-history.ts";

/** A valid key of a ConfigMap: at most 253 of these characters. */
const KEY = /^[-._a-zA-Z0-9]{1,253}$/;
/** A record without a restart in this time is removed. */
const KEEP_MS = 7 * DAY_MS;
/** How long the result of a search for room is reused, because every workload without a record asks for it. */
const ROOM_MS = 1_000;
/** Maximum number of restarts whose start time is kept in memory: far more than start in a week. */
const MAX_BEGUN = 100_000;

interface RestartRecordsDeps extends RecordMapDeps {
  /** A monotonic clock, in milliseconds. `begun` of the returned restarts is by this clock. */
  readonly now: () => number;
  /** Milliseconds since 1970. Only the difference to recorded times is used. */
  readonly wallClock: () => number;
  /** The limits of a workload apply while its last restart is younger than this. */
  readonly limitsMs: number;
}

interface Entry {
  readonly map: RecordMap;
  readonly text: string;
  readonly record: ReturnType<typeof decodeRecord>;
}

const FULL: Reason = {
  code: "restarts-unrecorded",
  text: "no room for a record of its restarts, because all existing records are still needed",
};

/**
 * The records of restarts, in our own ConfigMaps, so they survive an owner that reverts our annotations. A record is
 * written before its restart, as a compare-and-swap. So if two leaders overlap, one of them is refused. The
 * ConfigMaps are filled in order. A record moves to another ConfigMap only if it outgrows its own.
 */
export class RestartRecords {
  readonly #deps: RestartRecordsDeps;
  readonly #maps: readonly RecordMap[];
  readonly #entries = new Map<string, Entry>();
  /** By recorded time: when this process began a restart, by its own clock. */
  readonly #begun = new Map<number, number>();
  /** Whether removing old records can make room in full ConfigMaps. */
  #room: { readonly has: boolean; readonly until: number } | undefined;
  readonly #opened: { readonly now: number; readonly wallClock: number };

  private constructor(deps: RestartRecordsDeps) {
    this.#deps = deps;
    this.#maps = RECORD_MAPS.map((name) => new RecordMap(name, deps));
    this.#opened = { now: deps.now(), wallClock: deps.wallClock() };
  }

  /** Reads the records of earlier leaders. Creates the first ConfigMap if it is missing. */
  static async open(deps: RestartRecordsDeps, signal: AbortSignal): Promise<RestartRecords> {
    const records = new RestartRecords(deps);
    for (const map of records.#maps) {
      signal.throwIfAborted();
      await map.read(signal);
      await records.#index(map);
    }
    await records.#maps[0]?.create(signal);
    return records;
  }

  /** The restarts of a workload, or why it must not be restarted. */
  of(workload: string): History | Reason {
    const record = this.#entries.get(keyOf(workload))?.record;
    if (record === undefined) return this.#hasRoom() ? [] : FULL;
    return "code" in record ? record : record.restarts;
  }

  /** Yields the workload and restarts of every readable record. */
  *all(): Iterable<{ readonly workload: string; readonly restarts: History }> {
    for (const { record } of this.#entries.values()) if (!("code" in record)) yield record;
  }

  /** Throws if the write is not confirmed. Then the records of its ConfigMap are read again. */
  async put(workload: string, restarts: History, signal: AbortSignal): Promise<void> {
    const key = keyOf(workload);
    const from = this.#entries.get(key)?.map;
    this.#remember(restarts);
    if (restarts.length === 0) {
      if (from !== undefined) await this.#write(from, { [key]: null }, signal);
      return;
    }
    const text = encodeRecord(workload, restarts);
    const { map, dropped } = this.#placeFor(key, text);
    await map.create(signal);
    await this.#write(map, { ...dropped, [key]: text }, signal);
    // If this write fails, two records remain, and the newer one counts.
    if (from !== undefined && from !== map) await this.#write(from, { [key]: null }, signal);
  }

  #remember(restarts: History): void {
    for (const each of restarts) this.#begun.set(each.at, begunAt(each));
    for (const at of this.#begun.keys()) {
      if (this.#begun.size <= MAX_BEGUN) break;
      this.#begun.delete(at);
    }
  }

  async #write(map: RecordMap, data: Readonly<Record<string, string | null>>, signal: AbortSignal): Promise<void> {
    try {
      await map.write({ ...this.#outdatedIn(map), ...data }, signal);
    } catch (error) {
      if (!signal.aborted) {
        await map.read(signal);
        await this.#index(map);
      }
      throw error;
    }
    await this.#index(map);
  }

  /**
   * Takes over the current content of a ConfigMap. A move may leave two records of a workload. Then the newer one
   * counts.
   */
  async #index(map: RecordMap): Promise<void> {
    for (const [key, entry] of this.#entries) if (entry.map === map && !map.data.has(key)) this.#entries.delete(key);
    const sliceEnd = timeSlices();
    for (const [key, text] of map.data) {
      const before = this.#entries.get(key);
      if (before?.map === map && before.text === text) continue;
      const entry = { map, text, record: this.#decode(text) };
      if (before === undefined || before.map === map || lastOf(entry) > lastOf(before)) this.#entries.set(key, entry);
      const ended = sliceEnd();
      if (ended !== undefined) await ended;
    }
  }

  #decode(text: string): Entry["record"] {
    const record = decodeRecord(text);
    if ("code" in record) return record;
    return { ...record, restarts: record.restarts.map((each) => ({ ...each, begun: this.#begunAt(each.at) })) };
  }

  /**
   * Converts the time of a restart of an earlier term to the clock of this process. If the recorded time is in the
   * future, the restart has just begun.
   */
  #begunAt(at: number): number {
    return this.#begun.get(at) ?? this.#opened.now - Math.max(0, this.#opened.wallClock - at);
  }

  #hasRoom(): boolean {
    if (this.#maps.some((map) => map.bytes < FULL_MAP_BYTES)) return true;
    const now = this.#deps.now();
    if (this.#room === undefined || now >= this.#room.until) {
      this.#room = { has: this.#droppable().next().done === false, until: now + ROOM_MS };
    }
    return this.#room.has;
  }

  /**
   * Chooses the ConfigMap for a record, and the records to remove for it. A record stays in its ConfigMap while it
   * fits.
   */
  #placeFor(key: string, text: string): { map: RecordMap; dropped: Record<string, null> } {
    const bytes = recordBytes(key, text);
    const entry = this.#entries.get(key);
    const own = entry === undefined ? 0 : recordBytes(key, entry.text);
    if (entry !== undefined && entry.map.bytes - own + bytes <= MAX_MAP_BYTES) return { map: entry.map, dropped: {} };
    const free = this.#maps.find((map) => map.bytes + bytes <= FULL_MAP_BYTES);
    if (free !== undefined) return { map: free, dropped: {} };
    const oldest = this.#droppable()
      .toArray()
      .sort((one, other) => lastOf(one[1]) - lastOf(other[1]));
    const map = oldest[0]?.[1].map;
    if (map === undefined) throw new Error(FULL.text);
    const dropped: Record<string, null> = {};
    let over = map.bytes + bytes - FULL_MAP_BYTES;
    for (const [name, each] of oldest) {
      if (over <= 0) break;
      if (each.map !== map || name === key) continue;
      dropped[name] = null;
      over -= recordBytes(name, each.text);
    }
    return { map, dropped };
  }

  /** Records whose restarts no longer limit anything. */
  *#droppable(): Generator<[string, Entry]> {
    const before = this.#deps.now() - Math.max(DAY_MS, this.#deps.limitsMs);
    for (const [key, entry] of this.#entries) {
      if (!("code" in entry.record) && lastOf(entry) < before && isFinished(entry)) yield [key, entry];
    }
  }

  /** Records without a restart in the last week. */
  #outdatedIn(map: RecordMap): Record<string, null> {
    const before = this.#deps.now() - Math.max(KEEP_MS, this.#deps.limitsMs);
    const old: Record<string, null> = {};
    for (const [key, entry] of this.#entries) {
      if (entry.map === map && !("code" in entry.record) && lastOf(entry) < before) old[key] = null;
    }
    return old;
  }
}

/** When the last restart of a record began. */
function lastOf({ record }: Entry): number {
  const last = "code" in record ? undefined : record.restarts.at(-1);
  return last === undefined ? Number.NEGATIVE_INFINITY : begunAt(last);
}

function isFinished({ record }: Entry): boolean {
  return "code" in record || record.restarts.at(-1)?.outcome !== undefined;
}

/** `shop.Deployment.web`. */
function keyOf(workload: string): string {
  const key = workload.replaceAll("/", ".");
  return KEY.test(key) ? key : shortHash(workload);
}
