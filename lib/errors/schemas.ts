import * as v from "valibot";
import type { Schema } from "./validation.ts";

// valibot's schemas, with two rules of our own: a map is not a list, and only own keys of a map count.

type Dataset = v.UnknownDataset;
type Config = v.Config<v.BaseIssue<unknown>>;

/** An integer from `min` to `max`. */
export function integer(min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER) {
  return v.pipe(v.number(), v.safeInteger(), v.minValue(min), v.maxValue(max));
}

/** A number from `min` to `max`. */
export function number(min: number, max: number) {
  return v.pipe(v.number(), v.minValue(min), v.maxValue(max));
}

/** Any number that JSON can have. */
export const finite = v.pipe(v.number(), v.finite());

/** A finite number, at least `min`. */
export function numberFrom(min: number) {
  return v.pipe(finite, v.minValue(min));
}

/** A text that is not empty. */
export const text = v.pipe(v.string(), v.minLength(1));

/** A map with these fields. Other keys are left out. */
export function object<const E extends v.ObjectEntries>(entries: E): v.ObjectSchema<E, undefined> {
  const schema = v.object(entries);
  return { ...schema, "~run": (dataset, config) => runMap(schema, entries, dataset, config) };
}

/** A map with these fields and no other. */
export function strictObject<const E extends v.ObjectEntries>(entries: E): v.StrictObjectSchema<E, undefined> {
  const schema = v.strictObject(entries);
  const known = v.object(entries);
  const run = (dataset: Dataset, config: Config) => {
    const input = dataset.value;
    const read = runMap(known, entries, dataset, config);
    if (!isMap(input)) return read;
    for (const key of Object.keys(input)) {
      if (Object.hasOwn(entries, key)) continue;
      if (read.issues !== undefined && config.abortEarly) break;
      const path = [{ type: "object", origin: "key", input, key, value: input[key] }] as const;
      v._addIssue(schema, "key", read, config, {
        input: key,
        expected: Object.keys(entries).join(", "),
        path: [...path],
      });
    }
    return read;
  };
  return { ...schema, "~run": run as (typeof schema)["~run"] };
}

/** A map with any keys. valibot's own leaves out keys such as `constructor`, which a label may have. */
export function record<K extends v.GenericSchema<string, string>, V extends Schema>(
  key: K,
  value: V,
): v.RecordSchema<K, V, undefined> {
  const schema = v.record(key, value);
  const run = (dataset: Dataset, config: Config) => {
    const input = dataset.value;
    if (!isMap(input)) return refused(schema, dataset, config);
    const keys = Object.keys(input);
    const read = v.object(Object.fromEntries(keys.map((each) => [each, value])))["~run"](dataset, config);
    for (const each of keys) {
      // An assignment to this key would change the prototype of the result.
      if (each !== "__proto__" && key["~run"]({ value: each }, config).issues === undefined) continue;
      const path = [{ type: "object", origin: "key", input, key: each, value: input[each] }] as const;
      v._addIssue(schema, "key", read as unknown as Dataset, config, {
        path: [...path],
        message: "is not a valid key",
      });
    }
    return read;
  };
  return { ...schema, "~run": run as (typeof schema)["~run"] };
}

type Map = Readonly<Record<string, unknown>>;
type AnyObject = v.ObjectSchema<v.ObjectEntries, undefined>;

function isMap(value: unknown): value is Map {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Reads the fields of a map from own keys. A required field that is missing is read as undefined, so that its
 * schema says what it expects.
 */
function runMap<S extends AnyObject>(schema: S, entries: v.ObjectEntries, dataset: Dataset, config: Config) {
  const input = dataset.value;
  if (!isMap(input)) return refused(schema, dataset, config) as ReturnType<S["~run"]>;
  if (!hasOwnFields(input, entries)) {
    const own: Record<string, unknown> = {};
    for (const key in entries) {
      if (Object.hasOwn(input, key)) own[key] = input[key];
      else if (!isOptional(entries[key])) own[key] = undefined;
    }
    dataset.value = own;
  }
  return schema["~run"](dataset, config) as ReturnType<S["~run"]>;
}

/** Whether valibot can read the map itself: no field is inherited, and no required one is missing. */
function hasOwnFields(input: Map, entries: v.ObjectEntries): boolean {
  for (const key in entries) {
    if (key in input ? !Object.hasOwn(input, key) : !isOptional(entries[key])) return false;
  }
  return true;
}

/** Whether the field may be missing. */
function isOptional(schema: v.ObjectEntries[string] | undefined): boolean {
  return schema !== undefined && OPTIONAL.has(schema.type);
}

const OPTIONAL: ReadonlySet<string> = new Set(["optional", "nullish", "exact_optional"]);

function refused<S extends Schema>(schema: S, dataset: Dataset, config: Config): ReturnType<S["~run"]> {
  v._addIssue(schema, "type", dataset, config);
  return dataset as ReturnType<S["~run"]>;
}
