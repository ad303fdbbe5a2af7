import type { RemovalHold } from "#hostmap/removal-guard.ts";
import { MAP_NAME, type MapObject, mapAnnotations, parseMap, type RenderedMap } from "./map-format.ts";
import type { MapReader } from "./map-reader.ts";
import type { MapWriter } from "./map-writer.ts";

/** A map within one process, as in the demo: its webhook reads the object that its controller writes. */
export class MemoryMap implements MapWriter {
  #current: MapObject | undefined;
  readonly #listeners = new Set<() => void>();

  get synced(): boolean {
    return true;
  }

  get current(): MapObject | undefined {
    return this.#current;
  }

  /** What somebody else does to the map. Undefined: deletes it. */
  set current(object: MapObject | undefined) {
    this.#current = object;
    for (const listener of this.#listeners) listener();
  }

  start(onChange: () => void): void {
    this.#listeners.add(onChange);
  }

  async refresh(): Promise<void> {}

  async write({ revision, data, binaryData }: RenderedMap, hold: RemovalHold | undefined): Promise<void> {
    const annotations = mapAnnotations(revision, hold, new Date(0).toISOString());
    this.current = {
      metadata: { name: MAP_NAME, annotations },
      ...(data && { data }),
      ...(binaryData && { binaryData }),
    };
  }

  async stop(): Promise<void> {
    this.#listeners.clear();
  }
}

/** Follows the map of the same process. It ends when the map is stopped. */
export function memoryMapReader(map: MemoryMap): MapReader {
  return {
    start(found) {
      map.start(() => void parseMap(map.current).then(found));
      return { stop: async () => {} };
    },
  };
}
