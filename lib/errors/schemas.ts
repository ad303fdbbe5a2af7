import * as v from "valibot";
import { describe, type Schema } from "./validation.ts";

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

/** A text that is not empty. */
export const text = v.pipe(v.string(), v.minLength(1));

/** The mark of a text that has only values of an enumeration: it shows nothing of anybody. */
export const IS_WORD = {};
/** A value of an enumeration that has no list here, such as a reason code. */
export const word = v.pipe(v.string(), v.metadata(IS_WORD));

/** A map with these fields. Other keys are dropped. */
export function object<const E extends v.ObjectEntries>(entries: E): v.ObjectSchema<E, undefined> {
  return notOfList(v.object(entries));
}

/** A map with only these fields. The first other key is a flaw. */
export function strictObject<const E extends v.ObjectEntries>(entries: E): v.StrictObjectSchema<E, undefined> {
  const message = (issue: v.StrictObjectIssue) =>
    issue.expected === "never" ? `unknown setting; accepted are ${Object.keys(entries).join(", ")}` : describe(issue);
  return notOfList(v.strictObject(entries, message)) as unknown as v.StrictObjectSchema<E, undefined>;
}

/** A map with any keys, except those that could change the prototype of the result, which are dropped. */
export function record<K extends v.GenericSchema<string, string>, V extends Schema>(
  key: K,
  value: V,
): v.RecordSchema<K, V, undefined> {
  return notOfList(v.record(key, value));
}

const noList = v.custom((value) => !Array.isArray(value), "must be a map, not a list");

/** To valibot, a list is a map with the keys 0, 1, ... */
function notOfList<S extends Schema>(schema: S): S {
  const run: S["~run"] = (dataset, config) => (Array.isArray(dataset.value) ? noList : schema)["~run"](dataset, config);
  return { ...schema, "~run": run };
}
