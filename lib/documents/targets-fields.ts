import { isIPv4, isIPv6 } from "node:net";
import * as v from "valibot";
import { describeError } from "#lib/errors/errors.ts";
import { integer } from "#lib/errors/schemas.ts";
import { attempt, type Flaw, type Schema } from "#lib/errors/validation.ts";

// Fields and parsing of the documents in the ConfigMap `switchback-targets`.

/** Parses a document as a whole, or describes what is wrong with it. A text above `maxBytes` is not parsed. */
export function parseDocument<S extends Schema>(
  text: string,
  maxBytes: number,
  schema: S,
):
  | { readonly value: v.InferOutput<S>; readonly problem?: undefined }
  | { readonly value?: undefined; readonly problem: string } {
  if (text.length > maxBytes) return { problem: `has ${text.length} bytes; at most ${maxBytes} are read` };
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    return { problem: `is not JSON: ${describeError(error)}` };
  }
  const { value, flaw } = attempt(schema, json);
  return flaw === undefined ? { value } : { problem: describeFlaw(flaw) };
}

export function describeFlaw({ path, message }: Flaw): string {
  return `${path.join(".") || "(top)"}: ${message}`;
}

export const port = integer(1, 65_535);

/** node:net accepts an address with a zone. No Service has such an address. */
const address = v.pipe(
  v.string(),
  v.check((text) => isIPv4(text) || (isIPv6(text) && !text.includes("%"))),
);

export const addresses = v.pipe(v.array(address), v.maxLength(2));

export const targetName = v.pipe(v.string(), v.regex(/^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$/));

/** A host name or an IP literal. */
export const upstreamName = v.pipe(v.string(), v.maxLength(254), v.regex(/^[0-9A-Za-z_:.-]+$/));

/** Whether a text is an RFC 3339 time in UTC. */
export function isTime(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(text)) return false;
  const time = Date.parse(text);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text.slice(0, 10));
}
