import * as v from "valibot";
import type { Schema } from "./validation.ts";

// valibot's schemas with two rules of our own: a list is not a map, and only a map's own keys count.

type Dataset = v.UnknownDataset;
type Issue = v.BaseIssue<unknown>;
type Config = v.Config<Issue>;

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

/** A map with these fields. Other keys are dropped. */
export function object<const E extends v.ObjectEntries>(entries: E): v.ObjectSchema<E, undefined> {
  const schema = v.object(entries);
  return { ...schema, "~run": mapReader(schema) as (typeof schema)["~run"] };
}

/** A map with only these fields. */
export function strictObject<const E extends v.ObjectEntries>(entries: E): v.StrictObjectSchema<E, undefined> {
  const schema = v.strictObject(entries);
  const readKnown = mapReader(v.object(entries));
  const run = (dataset: Dataset, config: Config) => {
    const input = dataset.value;
    const read = readKnown(dataset, config);
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

/** A map with any keys. valibot's own `record` drops keys such as `constructor`, which a label may have. */
export function record<K extends v.GenericSchema<string, string>, V extends Schema>(
  key: K,
  value: V,
): v.RecordSchema<K, V, undefined> {
  const schema = v.record(key, value);
  const run = (dataset: Dataset, config: Config) => {
    const input = dataset.value;
    if (!isMap(input)) return refused(schema, dataset, config);
    const keys = Object.keys(input);
    const fields = keys.map((each) => ({ key: each, schema: value, mayMiss: false }));
    const read = readFields(fields, input, config);
    for (const each of keys) {
      // An assignment to this key would change the prototype of the result.
      if (each !== "__proto__" && key["~run"]({ value: each }, config).issues === undefined) continue;
      const path = [{ type: "object", origin: "key", input, key: each, value: input[each] }] as const;
      v._addIssue(schema, "key", read, config, {
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

/** A field of a map. A missing optional field is left out of the result. */
interface Field {
  readonly key: string;
  readonly schema: v.ObjectEntries[string];
  readonly mayMiss: boolean;
}

/** What was read from a map, and what is wrong with it. */
interface Read {
  typed: boolean;
  value: unknown;
  issues?: [Issue, ...Issue[]];
}

/**
 * Returns a function that reads the fields of a map from its own keys. A missing required field is read as undefined,
 * so that its schema reports what it expects. valibot's own loop would look up each field once more, and the webhook
 * reads several maps for each pod.
 */
function mapReader(schema: AnyObject): (dataset: Dataset, config: Config) => Read {
  const fields = Object.entries(schema.entries).map(([key, of]) => ({ key, schema: of, mayMiss: mayMiss(of) }));
  return (dataset, config) =>
    isMap(dataset.value)
      ? readFields(fields, dataset.value, config)
      : (refused(schema, dataset, config) as unknown as Read);
}

function readFields(fields: readonly Field[], input: Map, config: Config): Read {
  const output: Record<string, unknown> = {};
  const read: Read = { typed: true, value: output };
  for (const { key, schema, mayMiss } of fields) {
    const isOwn = Object.hasOwn(input, key);
    if (!isOwn && mayMiss) continue;
    const value = isOwn ? input[key] : undefined;
    const { typed, value: known, issues } = schema["~run"]({ value }, config);
    output[key] = known;
    if (!typed) read.typed = false;
    if (issues === undefined) continue;
    addIssues(read, issues, { type: "object", origin: "value", input, key, value });
    if (config.abortEarly) return { ...read, typed: false };
  }
  return read;
}

/** Adds the issues of a field. `step` is the field's place in the map. */
function addIssues(read: Read, issues: [Issue, ...Issue[]], step: v.IssuePathItem): void {
  for (const issue of issues) {
    if (issue.path === undefined) Object.assign(issue, { path: [step] });
    else issue.path.unshift(step);
    read.issues?.push(issue);
  }
  read.issues ??= issues;
}

function mayMiss(schema: v.ObjectEntries[string]): boolean {
  return OPTIONAL.has(schema.type) && !("default" in schema && schema.default !== undefined);
}

const OPTIONAL: ReadonlySet<string> = new Set(["optional", "nullish", "exact_optional"]);

function refused<S extends Schema>(schema: S, dataset: Dataset, config: Config): ReturnType<S["~run"]> {
  v._addIssue(schema, "type", dataset, config);
  return dataset as ReturnType<S["~run"]>;
}
