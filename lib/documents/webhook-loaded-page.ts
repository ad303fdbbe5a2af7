import type { Page } from "#lib/http/listen.ts";

/**
 * The page of a webhook replica's health port that says which map it uses, for people and tests.
 */
export const LOADED_PATH = "/loaded";

/** The map and the limit that a replica uses. */
interface LoadedMap {
  /** Undefined before the first map. */
  readonly mapRevision: string | undefined;
  /** `inject.maxNames`. 0 before the first map. */
  readonly maxNames: number;
}

/** Renders the page as JSON. `revision` is null before the first map. `names`, the size of the map, is for people. */
export function renderLoaded({ mapRevision, maxNames }: LoadedMap, names: number): Page {
  const body = JSON.stringify({ revision: mapRevision ?? null, names, maxNames });
  return { contentType: "application/json", body: `${body}\n` };
}
