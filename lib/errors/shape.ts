/** Where in a value something is wrong: keys and positions. */
type Path = readonly (string | number)[];

/** A value is not as a shape wants it. The message says what was expected, and quotes nothing of the value. */
export class ShapeError extends Error {
  readonly path: Path;

  constructor(path: Path, message: string) {
    super(message);
    this.path = path;
  }
}

/**
 * Reads a value that came from outside: returns what of it is known, or throws a ShapeError for the first thing that is wrong. For the
 * few small documents that processes read all the time; the configuration has a library for that, which is 4 MB in memory.
 */
type Shape<T> = (value: unknown, path?: Path) => T;

/** What a shape reads. */
export type Shaped<S> = S extends Shape<infer T> ? T : never;

type Optionals<F> = { [K in keyof F]: undefined extends Shaped<F[K]> ? K : never }[keyof F];
type Read<F> = { [K in Exclude<keyof F, Optionals<F>>]: Shaped<F[K]> } & { [K in Optionals<F>]?: Shaped<F[K]> };

/** What a shape reads, or what is wrong. */
export function attempt<T>(
  shape: Shape<T>,
  value: unknown,
): { readonly value: T; readonly flaw?: undefined } | { readonly value?: undefined; readonly flaw: ShapeError } {
  try {
    return { value: shape(value) };
  } catch (error) {
    if (error instanceof ShapeError) return { flaw: error };
    throw error;
  }
}

/** A map with these fields; others are left out. */
export function object<F extends Readonly<Record<string, Shape<unknown>>>>(fields: F): Shape<Read<F>> {
  const entries = Object.entries(fields);
  return (value, path = []) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw unexpected(path, "object", value);
    const read: Record<string, unknown> = {};
    for (const [key, shape] of entries) {
      const field = shape((value as Record<string, unknown>)[key], [...path, key]);
      if (field !== undefined) read[key] = field;
    }
    return read as Read<F>;
  };
}

/** A list of `min` to `max` items. */
export function array<T>(item: Shape<T>, { min = 0, max = Number.POSITIVE_INFINITY } = {}): Shape<T[]> {
  return (value, path = []) => {
    if (!Array.isArray(value)) throw unexpected(path, "array", value);
    if (value.length < min || value.length > max) throw new ShapeError(path, `expected ${min} to ${max} items`);
    return value.map((each, at) => item(each, [...path, at]));
  };
}

/** A text, of `max` characters at most, which `matches` accepts. */
export function string({
  min = 0,
  max = Number.POSITIVE_INFINITY,
  matches,
}: {
  readonly min?: number;
  readonly max?: number;
  readonly matches?: (text: string) => boolean;
} = {}): Shape<string> {
  return (value, path = []) => {
    if (typeof value !== "string") throw unexpected(path, "string", value);
    if (value.length < min || value.length > max || matches?.(value) === false) {
      throw new ShapeError(path, "Invalid string");
    }
    return value;
  };
}

/** A finite number from `min` to `max`. */
export function number({ min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY, integer = false } = {}) {
  return (value: unknown, path: Path = []): number => {
    if (typeof value !== "number" || !Number.isFinite(value)) throw unexpected(path, "number", value);
    if (value < min || value > max || (integer && !Number.isSafeInteger(value))) {
      throw new ShapeError(path, "Invalid number");
    }
    return value;
  };
}

/** One of these values. */
export function oneOf<const T extends string | number>(...values: readonly T[]): Shape<T> {
  return (value, path = []) => {
    if (values.includes(value as T)) return value as T;
    throw new ShapeError(path, `Invalid input: expected ${values.map((each) => JSON.stringify(each)).join(" or ")}`);
  };
}

/** Absent, or as `shape`. */
export function optional<T>(shape: Shape<T>): Shape<T | undefined> {
  return (value, path) => (value === undefined ? undefined : shape(value, path));
}

/** Absent, null, or as `shape`. */
export function nullish<T>(shape: Shape<T>): Shape<T | null | undefined> {
  return (value, path) => (value === undefined || value === null ? value : shape(value, path));
}

/** Anything. */
export const unknown: Shape<unknown> = (value) => value;

/** What `isValid` accepts. */
export function custom<T>(isValid: (value: unknown) => boolean, expected: string): Shape<T> {
  return (value, path = []) => {
    if (isValid(value)) return value as T;
    throw new ShapeError(path, `Invalid input: expected ${expected}`);
  };
}

function unexpected(path: Path, expected: string, value: unknown): ShapeError {
  const kind = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  return new ShapeError(path, `Invalid input: expected ${expected}, received ${kind}`);
}
