import { askJson } from "#lib/http/ask-json.ts";
import type { Page } from "#lib/http/listen.ts";

/**
 * The page of a webhook replica's health port that says which map it uses. The controller reads it before it restarts
 * a workload.
 */
export const LOADED_PATH = "/loaded";

/** The map and the limit that a replica uses. */
export interface LoadedMap {
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

/**
 * Reads the page of one replica. Fields that are missing or have another type are undefined. Rejects like `askJson`.
 */
export async function readLoaded(address: string, port: number): Promise<Partial<LoadedMap>> {
  const page = (await askJson(address, port, LOADED_PATH)) as { revision?: unknown; maxNames?: unknown } | null;
  const { revision, maxNames } = page ?? {};
  return {
    mapRevision: typeof revision === "string" ? revision : undefined,
    ...(typeof maxNames === "number" && { maxNames }),
  };
}
