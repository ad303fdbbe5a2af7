import { MAP_NAME, type MapNotes, type MapObject, mapAnnotations, type RenderedMap } from "#lib/documents/map-format.ts";
import type { MapWriter } from "#lib/documents/map-writer.ts";

/** A map in memory instead of the API server. */
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

  async refresh(): Promise<MapObject | undefined> {
    return this.#current;
  }

  async write({ revision, data, binaryData }: RenderedMap, notes: MapNotes): Promise<void> {
    const annotations = mapAnnotations(revision, notes, new Date(0).toISOString());
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
