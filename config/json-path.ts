import { createRequire } from "node:module";
import type { JSONPathQuery } from "json-p3";

/** Values that a path leads to, at most `max` of them. */
export type JsonPath = (value: object, max: number) => unknown[];

type Library = typeof import("json-p3");
let library: Library | undefined;

/** The library costs 6 MB of memory, and only a controller with custom sources needs it. */
function compile(text: string): JSONPathQuery {
  library ??= createRequire(import.meta.url)("json-p3") as Library;
  return library.compile(text);
}

/** Why a text is no JSONPath (RFC 9535), or undefined if it is one. */
export function jsonPathFault(text: string): string | undefined {
  try {
    compile(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** A path that `jsonPathFault` has found nothing wrong with. Its use may throw, where an object is nested too deeply for a `..` in it. */
export function jsonPath(text: string): JsonPath {
  const query = compile(text);
  return (value, max) => {
    const found: unknown[] = [];
    if (max <= 0) return found;
    for (const node of query.lazyQuery(value as Parameters<JSONPathQuery["lazyQuery"]>[0])) {
      found.push(node.value);
      if (found.length >= max) break;
    }
    return found;
  };
}
