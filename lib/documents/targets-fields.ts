import { isIPv4, isIPv6 } from "node:net";
import * as v from "valibot";
import { integer } from "#lib/errors/schemas.ts";

// Fields of the documents of the ConfigMap `switchback-targets`.

export const port = integer(1, 65_535);

/** node:net accepts an address with a zone, which no Service has. */
export const address = v.pipe(
  v.string(),
  v.check((text) => isIPv4(text) || (isIPv6(text) && !text.includes("%"))),
);

export const addresses = v.pipe(v.array(address), v.maxLength(2));

export const targetName = v.pipe(v.string(), v.regex(/^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$/));

/** A host name or an IP literal. */
export const upstreamName = v.pipe(v.string(), v.maxLength(254), v.regex(/^[0-9A-Za-z_:.-]+$/));

/** Whether a text is a time of RFC 3339 in UTC. */
export function isTime(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(text)) return false;
  const time = Date.parse(text);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text.slice(0, 10));
}
