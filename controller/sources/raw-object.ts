// What is read of an object that nobody checked: a part of another shape counts as missing.

/** An object as it came over the wire or out of a file. */
export type Raw = Readonly<Record<string, unknown>>;

/** The text that stands here; anything else, the empty text too, is no text. */
export function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The map that stands here, or an empty one. */
export function mapOf(value: unknown): Raw {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Raw) : {};
}

/** The list's members that are texts. */
export function textsOf(value: unknown): string[] {
  return listOf(value).filter((entry): entry is string => textOf(entry) !== undefined);
}

/** The map's entries that are texts. */
export function textMapOf(value: unknown): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(mapOf(value)).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}
