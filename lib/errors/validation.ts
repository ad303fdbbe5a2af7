import * as v from "valibot";

// Describes what is wrong with a value from outside. Messages never quote the value: it may be secret, and very long.

/** The place of a flaw in a value: keys and positions. */
type Path = readonly (string | number)[];

/** One flaw of a value. */
export interface Flaw {
  readonly path: Path;
  readonly message: string;
  /** True if the last step of the path is a key that the schema does not know. */
  readonly isUnknownKey?: boolean;
}

export type Schema = v.GenericSchema;
type Issue = v.BaseIssue<unknown>;

/** Parses a value. Returns the parsed value, or the first flaw. */
export function attempt<S extends Schema>(
  schema: S,
  value: unknown,
):
  | { readonly value: v.InferOutput<S>; readonly flaw?: undefined }
  | { readonly value?: undefined; readonly flaw: Flaw } {
  const { issues, output } = v.safeParse(schema, value, { message: describe, abortEarly: true });
  return issues === undefined ? { value: output } : { flaw: flawOf(issues[0]) };
}

/** Parses a value. Throws a TypeError that describes the first flaw. */
export function parse<S extends Schema>(schema: S, value: unknown): v.InferOutput<S> {
  const read = attempt(schema, value);
  if (read.flaw === undefined) return read.value;
  throw new TypeError(renderFlaw(read.flaw));
}

/** Returns every flaw of a value, one per place. Despite flaws, there is an output if all types are right. */
export function validate<S extends Schema>(
  schema: S,
  value: unknown,
): { readonly output?: v.InferOutput<S>; readonly flaws: readonly Flaw[] } {
  const { typed, issues = [], output } = v.safeParse(schema, value, { message: describe, abortPipeEarly: true });
  const flaws = issues.map(flawOf);
  return typed ? { output, flaws } : { flaws };
}

/** For example `targets[0].ports: ...`. `(top)` stands for the value itself. */
export function renderFlaw({ path, message }: Flaw): string {
  return `${renderPath(path) || "(top)"}: ${message}`;
}

/** For example `targets[0].ports`. */
export function renderPath(path: Path): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else text += text === "" ? step : `.${step}`;
  }
  return text;
}

function flawOf(issue: Issue): Flaw {
  const path = issue.path?.map(({ key }) => key as string | number) ?? [];
  const isUnknownKey = issue.type === "strict_object" && issue.expected === "never";
  return isUnknownKey ? { path, message: issue.message, isUnknownKey } : { path, message: issue.message };
}

const LIMITS: Readonly<Record<string, string>> = {
  min_value: "be at least",
  gt_value: "be more than",
  max_value: "be at most",
  min_length: "have at least",
  max_length: "have at most",
};

/** Describes what a value must be. It reveals only the kind of the actual value. */
export function describe(issue: Issue): string {
  const { type, input, expected } = issue;
  if (LIMITS[type] !== undefined) return limitOf(issue, LIMITS[type]);
  if (type === "picklist") return `must be one of ${expected?.replaceAll(/^\(|\)$/g, "").replaceAll(" | ", ", ")}`;
  if (type === "safe_integer") return "must be a whole number";
  if (type === "literal") return `must be ${expected}`;
  const wanted = issue.kind === "schema" ? KINDS[type] : undefined;
  if (wanted === undefined) return "is not valid";
  return mismatch(wanted, input);
}

/** For example `must be a map, not a list`. */
export function mismatch(wanted: string, input: unknown): string {
  return input === undefined ? "is missing" : `must be ${wanted}, not ${kindOf(input)}`;
}

function limitOf({ type, input, requirement }: Issue, limit: string): string {
  if (type === "min_length" && requirement === 1) return "must not be empty";
  const unit = typeof input === "number" ? "" : Array.isArray(input) ? " items" : " characters";
  return `must ${limit} ${requirement}${unit}`;
}

/** Names for the types of schemas and of values. */
const KINDS: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  boolean: "true or false",
  array: "a list",
  object: "a map",
  strict_object: "a map",
  loose_object: "a map",
  record: "a map",
};

function kindOf(value: unknown): string {
  if (value === null || typeof value === "boolean") return String(value);
  return KINDS[Array.isArray(value) ? "array" : typeof value] ?? typeof value;
}
