import * as v from "valibot";
import { finite, object, text, word } from "#lib/errors/schemas.ts";
import type { Schema } from "#lib/errors/validation.ts";

// A shape has the fields of an object that are read: sources get no others, and a dump has no others.

/** Maximum number of members that are read of a list. An object may have a million. */
const MAX_MEMBERS = 20_000;

function list<S extends Schema>(member: S): v.ArraySchema<S, undefined> {
  const all = v.array(member);
  const run: (typeof all)["~run"] = (dataset, config) => {
    const { value } = dataset;
    const isLong = Array.isArray(value) && value.length > MAX_MEMBERS;
    return all["~run"](isLong ? { ...dataset, value: value.slice(0, MAX_MEMBERS) } : dataset, config);
  };
  return { ...all, "~run": run };
}

/** A member that is no text is empty. */
const texts = list(v.fallback(v.string(), ""));

const LEAVES = {
  /** Not empty. */
  text,
  /** A value of an enumeration, which a redacted dump keeps. It may be empty. */
  word,
  number: finite,
  flag: v.boolean(),
  port: v.union([v.string(), finite]),
  "text or empty": v.string(),
  "texts or empty": texts,
  /** Without empty texts. */
  texts: v.pipe(texts, v.filterItems(Boolean)),
  /** Texts by key. Unlike a record of valibot, it keeps the key `constructor`, which a label may have. */
  map: v.pipe(
    v.custom<Record<string, unknown>>((value) => Object(value) === value && !Array.isArray(value)),
    v.transform((map) => {
      const others = Object.keys(map).filter((key) => typeof map[key] !== "string");
      if (others.length === 0) return map as Record<string, string>;
      return { ...map, ...Object.fromEntries(others.map((key) => [key, ""])) } as Record<string, string>;
    }),
  ),
} as const;

export interface Fields {
  readonly [field: string]: Shape;
}
/** The type of a value, the fields of a map, or the fields of each map in a list. */
type Shape = keyof typeof LEAVES | Fields | readonly [Fields];

/** What is read of a value with this shape. */
export type Read<S> = S extends keyof typeof LEAVES
  ? Readonly<v.InferOutput<(typeof LEAVES)[S]>>
  : S extends readonly [infer Member]
    ? readonly Read<Member>[]
    : { readonly [Field in keyof S]?: Read<S[Field]> | undefined };

/** The schemas of fields. */
export function schemasOf(fields: Fields): v.ObjectEntries {
  return Object.fromEntries(Object.entries(fields).map(([name, shape]) => [name, optional(schemaOf(shape))]));
}

/** A field with a wrong type counts as missing. One function, because sources parse every object of a cluster. */
function optional(schema: Schema): Schema {
  const run: Schema["~run"] = (dataset, config) => {
    const read = schema["~run"](dataset, config);
    return read.issues === undefined ? read : { typed: true, value: undefined };
  };
  return { ...v.optional(schema), "~run": run };
}

function schemaOf(shape: Shape): Schema {
  if (typeof shape === "string") return LEAVES[shape];
  if (Array.isArray(shape)) return list(v.fallback(schemaOf(shape[0]), {}));
  return object(schemasOf(shape as Fields));
}

/** Returns a function that reads these fields of a value. */
export function readerOf<const F extends Fields>(fields: F): (value: unknown) => Read<F> {
  const schema = v.fallback(object(schemasOf(fields)), {});
  return (value) => v.parse(schema, value) as Read<F>;
}

/** The fields that are read of any object. */
export const ORIGIN = {
  apiVersion: "text",
  metadata: { name: "text", namespace: "text", uid: "text", creationTimestamp: "text", annotations: "map" },
} as const;
