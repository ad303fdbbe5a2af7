import { SwitchbackError } from "#lib/errors/errors.ts";
import { mismatch } from "#lib/errors/validation.ts";

// Reads fields of a value from outside, one by one: a schema takes a tenth of an admission.
// `path` names the field in the error. Each function throws `input-invalid`, and quotes none of the value.

/** A map, not a list. */
export function mapAt(value: unknown, path: string): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw flawAt(path, mismatch("a map", value));
}

export function listAt(value: unknown, path: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw flawAt(path, mismatch("a list", value));
}

export function textAt(value: unknown, path: string): string {
  if (typeof value === "string") return value;
  throw flawAt(path, mismatch("a string", value));
}

/** The error for a field that must be something else. */
export function flawAt(path: string, message: string): SwitchbackError {
  return new SwitchbackError("input-invalid", `${path}: ${message}`);
}
