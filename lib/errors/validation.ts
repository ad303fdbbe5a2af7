import * as v from "valibot";

// What is wrong with a value that came from outside. Messages quote nothing of it: it may be secret, and very long.

/** Where in a value something is wrong: keys and positions. */
type Path = readonly (string | number)[];

/** One thing that is wrong with a value. */
export interface Flaw {
  readonly path: Path;
  readonly message: string;
  /** The last step of the path is a key that the schema does not know. */
  readonly isUnknownKey?: boolean;
}

export type Schema = v.GenericSchema;
type Issue = v.BaseIssue<unknown>;

/** The first thing that is wrong with a value, or what is known of it. */
export function attempt<S extends Schema>(
  schema: S,
  value: unknown,
):
  | { readonly value: v.InferOutput<S>; readonly flaw?: undefined }
  | { readonly value?: undefined; readonly flaw: Flaw } {
  const { issues, output } = v.safeParse(schema, value, { message: describe, abortEarly: true });
  return issues === undefined ? { value: output } : { flaw: flawOf(issues[0]) };
}

/** What is known of a value. Throws a TypeError that says what is wrong first. */
export function parse<S extends Schema>(schema: S, value: unknown): v.InferOutput<S> {
  const read = attempt(schema, value);
  if (read.flaw === undefined) return read.value;
  throw new TypeError(renderFlaw(read.flaw));
}

/**
 * Everything that is wrong with a value, one flaw for each place. With flaws, the output is there only if all its types
 * are right.
 */
export function validate<S extends Schema>(
  schema: S,
  value: unknown,
): { readonly output?: v.InferOutput<S>; readonly flaws: readonly Flaw[] } {
  const { typed, issues = [], output } = v.safeParse(schema, value, { message: describe, abortPipeEarly: true });
  const flaws = issues.map(flawOf);
  return typed ? { output, flaws } : { flaws };
}

/** `targets[0].ports: ...`; `(top)` is the value itself. */
export function renderFlaw({ path, message }: Flaw): string {
  return `${renderPath(path) || "(top)"}: ${message}`;
}

/** `targets[0].ports`. */
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
  const isUnknownKey = issue.type === "strict_object" && issue.path?.at(-1)?.origin === "key";
  return isUnknownKey ? { path, message: issue.message, isUnknownKey } : { path, message: issue.message };
}

const LIMITS: Readonly<Record<string, readonly [what: string, sign: string]>> = {
  min_value: ["Too small", ">="],
  gt_value: ["Too small", ">"],
  max_value: ["Too big", "<="],
  min_length: ["Too small", ">="],
  max_length: ["Too big", "<="],
  length: ["Wrong length", ""],
};

/** Names what was expected. Of the value it names the type only. */
function describe(issue: Issue): string {
  const { kind, type, input, requirement, expected } = issue;
  const limit = LIMITS[type];
  if (limit !== undefined) {
    const [what, sign] = limit;
    const unit = Array.isArray(input) ? " items" : " characters";
    if (typeof input === "number") return `${what}: expected number to be ${sign}${requirement}`;
    return `${what}: expected ${kindOf(input)} to have ${sign}${requirement}${unit}`;
  }
  if (type === "strict_object" && issue.path !== undefined) return `unknown setting; accepted are ${expected}`;
  if (type === "picklist")
    return `Invalid option: expected one of ${expected?.replaceAll(/^\(|\)$| (?=\|)|(?<=\|) /g, "")}`;
  if (type === "safe_integer") return "Invalid input: expected int, received number";
  if (type === "literal") return `Invalid input: expected ${expected}`;
  if (kind !== "schema") return "Invalid input";
  return `Invalid input: expected ${NAMES[type] ?? type}, received ${kindOf(input)}`;
}

const NAMES: Readonly<Record<string, string>> = { strict_object: "object", loose_object: "object", record: "object" };

function kindOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
}
