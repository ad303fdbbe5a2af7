import { IGNORE_KEY, TARGET_KEY } from "#hostmap/metadata-keys.ts";
import type { ObjectRef, Reason } from "#hostmap/types.ts";
import type { ChosenTarget, RoutingHints } from "./types.ts";

// Readers for the fields of an unvalidated object: a field of another type counts as missing.

/** An object as it was received or read from a file. */
export type Raw = Readonly<Record<string, unknown>>;

/**
 * One character more than a hostname may have. So a truncated name is still rejected for its length
 * (`lib/hostmap/hostnames.ts`), and a megabyte of text is not kept.
 */
const MAX_KEPT = 254;

/**
 * Copies the start of a text. A part of a text that is not copied keeps the whole text in memory (v8,
 * src/objects/string.h, SlicedString). `join` makes one flat string.
 */
export function copied(text: string, most = MAX_KEPT): string {
  const start = text.slice(0, most);
  return [start.slice(0, 1), start.slice(1)].join("");
}

/** The value if it is a non-empty string. */
export function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The value if it is a map, or an empty map. */
export function mapOf(value: unknown): Raw {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Raw) : {};
}

/** The members of the list that are strings. */
export function textsOf(value: unknown): string[] {
  return listOf(value).filter((entry): entry is string => textOf(entry) !== undefined);
}

/** The entries of the map that are strings. */
export function textMapOf(value: unknown): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(mapOf(value)).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}

/** The fields that any object may have, whatever its kind. */
export interface ObjectOrigin {
  readonly ref: ObjectRef;
  /** creationTimestamp, RFC 3339; empty if it is missing. */
  readonly created: string;
  /** Whether the object has our annotation that excludes its names. */
  readonly ignored: boolean;
  /** The target that it chooses. */
  readonly chosen?: ChosenTarget;
}

/** One character more than a target's name may have, so a truncated name is still no valid target. */
const MAX_TARGET_NAME = 64;

export function originOf(kind: string, raw: Raw): ObjectOrigin {
  const metadata = mapOf(raw.metadata);
  const annotations = mapOf(metadata.annotations);
  const namespace = textOf(metadata.namespace) ?? "";
  const target = annotations[TARGET_KEY];
  const apiVersion = textOf(raw.apiVersion);
  const uid = textOf(metadata.uid);
  return {
    ref: { kind, namespace, name: textOf(metadata.name) ?? "", ...(uid && apiVersion && { apiVersion, uid }) },
    created: textOf(metadata.creationTimestamp) ?? "",
    ignored: annotations[IGNORE_KEY] === "true",
    // An empty text matches no target, and is reported like an unknown name.
    ...(typeof target === "string" && { chosen: { target: copied(target, MAX_TARGET_NAME), namespace } }),
  };
}

/** The hints of an object, with its own choice or that of the object that it is attached to. */
export function withChoice<H extends RoutingHints | Reason>(hints: H, { chosen }: Pick<ObjectOrigin, "chosen">): H {
  return "code" in hints || chosen === undefined ? hints : { ...hints, chosen };
}

/** The reason for the names of an ignored object. */
export function ignoredBy({ kind, namespace, name }: ObjectRef): Reason {
  return { code: "ignored", text: `the ${kind} ${namespace}/${name} carries ${IGNORE_KEY}: "true"` };
}
