/** Whether a selector selects an object with these labels or fields. */
type Selects = (values: Readonly<Record<string, string>>) => boolean;

interface Form {
  readonly pattern: RegExp;
  readonly selects: (value: string | undefined, wanted: readonly string[]) => boolean;
}

/** The forms of one requirement, the longer ones first (Kubernetes API reference, "Labels and Selectors"). */
const FORMS: readonly Form[] = [
  { pattern: /^(\S+)\s+in\s*\((.*)\)$/, selects: (value, wanted) => value !== undefined && wanted.includes(value) },
  { pattern: /^(\S+)\s+notin\s*\((.*)\)$/, selects: (value, wanted) => value === undefined || !wanted.includes(value) },
  { pattern: /^([^\s!=]+)\s*!=\s*(.*)$/, selects: (value, [wanted]) => value !== wanted },
  { pattern: /^([^\s!=]+)\s*==?\s*(.*)$/, selects: (value, [wanted]) => value === wanted },
  { pattern: /^!\s*([^\s!=]+)$/, selects: (value) => value === undefined },
  { pattern: /^([^\s!=]+)$/, selects: (value) => value !== undefined },
];

/**
 * Parses a label or field selector like the API server: requirements joined by commas, all of which must hold. A
 * missing field counts as an empty text, unlike a missing label.
 */
export function parseSelector(text: string | undefined): Selects {
  const requirements = split(text ?? "").map(requirement);
  return (values) => requirements.every((holds) => holds(values));
}

/** The value that a selector requires for a key with `=`; undefined if it requires none. */
export function requiredValue(text: string | undefined, key: string): string | undefined {
  for (const part of split(text ?? "")) {
    const [name = "", value = ""] = part.split(/==?/, 2);
    if (name.trim() === key && part.includes("=") && !part.includes("!=")) return value.trim();
  }
  return undefined;
}

/** Splits at commas outside of brackets. */
function split(text: string): string[] {
  return (text.match(/(?:[^,(]|\([^)]*\))+/g) ?? []).map((part) => part.trim()).filter((part) => part !== "");
}

function requirement(text: string): Selects {
  for (const { pattern, selects } of FORMS) {
    const [, key = "", list = ""] = pattern.exec(text) ?? [];
    if (key === "") continue;
    const wanted = list.split(",").map((value) => value.trim());
    return (values) => selects(Object.hasOwn(values, key) ? values[key] : undefined, wanted);
  }
  throw new Error(`${JSON.stringify(text)} is not a requirement of a selector`);
}
