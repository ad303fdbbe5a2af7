import { isWindows, type Packing, packLines, packWindowsLines } from "#hostmap/pack.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { flawAt, listAt, mapAt, textAt } from "./fields.ts";

/** The fields of a pod that the webhook reads. */
export interface AdmittedPod {
  readonly hostAliases: readonly HostAlias[];
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Whether `metadata.annotations` and `metadata.labels` exist: a JSONPatch cannot add a key to a missing object. */
  readonly hasAnnotations: boolean;
  readonly hasLabels: boolean;
  /** How its managed aliases are packed. */
  readonly pack: Packing;
  /** Names the field that has a wrong type. Then every other field is empty. */
  readonly flaw?: string;
}

const ALIASES = "spec.hostAliases";

/** Reads a pod that the API server sent. No path has more than two levels: deeper ones have a user's text. */
export function readPod(pod: unknown): AdmittedPod {
  try {
    const { metadata, spec } = mapAt(pod, "the object");
    const { labels, annotations } = mapAt(metadata, "metadata");
    const { hostAliases, os, nodeSelector } = mapAt(spec, "spec");
    return {
      labels: stringsAt(labels ?? {}, "metadata.labels"),
      annotations: stringsAt(annotations ?? {}, "metadata.annotations"),
      hasAnnotations: Boolean(annotations),
      hasLabels: Boolean(labels),
      hostAliases: listAt(hostAliases ?? [], ALIASES).map(readAlias),
      pack: isWindows({ os, nodeSelector }) ? packWindowsLines : packLines,
    };
  } catch (error) {
    return { ...readPod({ metadata: {}, spec: {} }), flaw: describeError(error) };
  }
}

function readAlias(alias: unknown): HostAlias {
  const { ip, hostnames } = mapAt(alias, ALIASES);
  return { ip: textAt(ip, ALIASES), hostnames: listAt(hostnames ?? [], ALIASES).map((name) => textAt(name, ALIASES)) };
}

function stringsAt(value: unknown, path: string): Readonly<Record<string, string>> {
  const isMap = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isMap || Object.values(value).some((text) => typeof text !== "string"))
    throw flawAt(path, "must be a map of strings");
  return value as Record<string, string>;
}
