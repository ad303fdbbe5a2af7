import { isIP } from "node:net";
import * as v from "valibot";
import { isGlob, parseGlob } from "#hostmap/hostnames.ts";
import { finite, integer, number } from "#lib/errors/schemas.ts";
import type { Schema } from "#lib/errors/validation.ts";
import { jsonPathError } from "./json-path.ts";

// Types of single settings.

/** A setting with a default, and its description for people. */
export function setting<S extends Schema, const D extends v.InferInput<S>>(schema: S, fallback: D, text: string) {
  return v.pipe(v.optional(schema, fallback), v.description(text)) as v.OptionalSchema<S, D>;
}

/** A setting that may be missing, and its description for people. */
export function optionalSetting<S extends Schema>(schema: S, text: string) {
  return v.pipe(v.optional(schema), v.description(text)) as v.OptionalSchema<S, undefined>;
}

/** A schema with its description for people. */
export function described<S extends Schema>(schema: S, text: string): S {
  return v.pipe(schema, v.description(text)) as unknown as S;
}

/** Several settings, all of which have defaults. */
export function section<S extends Schema>(schema: S) {
  return v.optional(schema, {} as v.InferInput<S>) as v.OptionalSchema<S, v.InferInput<S>>;
}

/** A number above 0. */
export const positive = v.pipe(finite, v.gtValue(0));

/** A TCP port, 1-65535. */
export const port = integer(1, 65535);
/** A TCP port to bind. 0 means any free port. */
export const bindPort = integer(0, 65535);

/** Node limits timers to 2^31 - 1 ms, and treats a longer delay as 1 ms. */
const MAX_SECONDS = 2_000_000;
/** A duration in seconds, at least `min`. */
export function secondsFrom(min: number, max = MAX_SECONDS) {
  return number(min, max);
}
/** A duration in seconds. */
export const seconds = secondsFrom(0);

/** An RFC 1123 label, which Kubernetes requires for most object names that become part of a DNS name. */
export const label = v.pipe(
  v.string(),
  v.regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, "must be a lower-case RFC 1123 label"),
);
/** An IP address. A zone (`fe80::1%eth0`) is refused: it has no meaning in another host's hosts file. */
export const ip = v.pipe(
  v.string(),
  v.check(
    (address) => isIP(address) !== 0 && !address.includes("%"),
    "must be an IPv4 or IPv6 address, without a zone",
  ),
);
const GLOB_FORMS =
  "must be a name (`api.example.com`), a wildcard for all names below one (`*.example.com`, at any depth) or `*`";
/** The regular expression is for editors and the chart; `parseGlob` is the actual validation. */
export const glob = v.pipe(
  v.string(),
  v.regex(/^(\*|(\*|[a-z0-9][-a-z0-9]*)(\.[a-z0-9][-a-z0-9]*)+)$/, GLOB_FORMS),
  v.check((name) => isGlob(parseGlob(name)), GLOB_FORMS),
);
export const domain = v.pipe(
  v.string(),
  v.regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\.?$/, "must be a lower-case DNS domain, such as `cluster.local`"),
);
export const host = v.pipe(
  v.string(),
  v.regex(/^[0-9A-Za-z_:.-]+$/, "must be a host name or an IP address"),
  v.check((name) => isIP(name) !== 0 || !name.includes(":"), "must not have a port; set ports under `ports`"),
);

/** A JSONPath (RFC 9535), relative to the root of an object. */
export const path = v.pipe(
  v.string(),
  v.rawCheck(({ dataset, addIssue }) => {
    const error = dataset.typed ? jsonPathError(dataset.value) : undefined;
    if (error === undefined) return;
    addIssue({ message: `is not a valid JSONPath (RFC 9535), such as \`$.spec.hosts[*]\`: ${error}` });
  }),
);
