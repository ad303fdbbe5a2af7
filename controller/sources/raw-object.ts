// Readers for the fields of an unvalidated object: a field of another type counts as missing.

/** An object as it was received or read from a file. */
export type Raw = Readonly<Record<string, unknown>>;

/** The value if it is a string that is not empty. */
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
