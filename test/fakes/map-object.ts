import { shortHash } from "#hostmap/hash.ts";
import { renderHosts } from "#hostmap/hosts-text.ts";
import type { HostLine } from "#hostmap/types.ts";
import { type MapObject, mapAnnotations } from "#lib/documents/map-format.ts";

/** The ConfigMap of a map with this text. */
export function mapObject(text: string): MapObject & { readonly [field: string]: unknown } {
  const annotations = mapAnnotations(shortHash(text), undefined, "2026-01-01T00:00:00.000Z");
  return { metadata: { name: "switchback-map", annotations }, data: { hosts: text } };
}

/** The ConfigMap of a map of these names, all with one address. */
export function mapObjectOf(names: readonly string[], address = "198.51.100.9"): ReturnType<typeof mapObject> {
  return mapObject(renderHosts(names.map((name): HostLine => ({ name, addresses: [address] }))));
}
