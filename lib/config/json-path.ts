import { createRequire } from "node:module";
import type { JSONPathQuery } from "json-p3";

/** Returns the values that the path selects, at most `max` of them. */
export type JsonPath = (value: object, max: number) => unknown[];

type Library = typeof import("json-p3");
let loadedLibrary: Library | undefined;

/**
 * Compiles a path. The library loads on first use: it takes 6 MB, and only a controller with custom sources needs it.
 */
function compile(text: string): JSONPathQuery {
  loadedLibrary ??= createRequire(import.meta.url)("json-p3") as Library;
  return loadedLibrary.compile(text);
}

/** Returns why a text is not a valid JSONPath (RFC 9535), or undefined if it is valid. */
export function jsonPathError(text: string): string | undefined {
  try {
    compile(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/**
 * Returns a query for a valid JSONPath. The path is compiled on first use, because the presets have paths too. The
 * query may throw if an object is nested too deeply for a `..` segment.
 */
export function jsonPath(text: string): JsonPath {
  let query: JSONPathQuery | undefined;
  return (value, max) => {
    query ??= compile(text);
    const found: unknown[] = [];
    if (max <= 0) return found;
    for (const node of query.lazyQuery(value as Parameters<JSONPathQuery["lazyQuery"]>[0])) {
      found.push(node.value);
      if (found.length >= max) break;
    }
    return found;
  };
}
