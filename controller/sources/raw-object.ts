import { IGNORE_KEY, TARGET_KEY } from "#hostmap/metadata-keys.ts";
import type { ObjectRef, Reason } from "#hostmap/types.ts";
import { type Fields, ORIGIN, type Read, readerOf } from "#lib/kube/shapes.ts";
import type { ChosenTarget, RoutingHints } from "./types.ts";

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

export const readOrigin = readerOf(ORIGIN);

/** Returns what views an object by its fields. `usual` is the API's name of the kind. */
export function viewer<const F extends Fields, V>(
  usual: string,
  fields: F,
  view: (origin: ObjectOrigin, object: Read<F & typeof ORIGIN>) => V,
): (raw: Raw, kind?: string) => V {
  const read = readerOf({ ...ORIGIN, ...fields } as const);
  return (raw, kind = usual) => {
    const object = read(raw);
    return view(originOf(kind, object), object);
  };
}

export function originOf(kind: string, { apiVersion, metadata }: Read<typeof ORIGIN>): ObjectOrigin {
  const { namespace = "", name = "", uid, creationTimestamp: created = "", annotations = {} } = metadata ?? {};
  const target = annotations[TARGET_KEY];
  return {
    ref: { kind, namespace, name, ...(uid && apiVersion && { apiVersion, uid }) },
    created,
    ignored: annotations[IGNORE_KEY] === "true",
    // An empty text matches no target, and is reported like an unknown name.
    ...(target !== undefined && { chosen: { target: copied(target, MAX_TARGET_NAME), namespace } }),
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
