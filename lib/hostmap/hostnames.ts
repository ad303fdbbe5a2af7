import type { Reason } from "./types.ts";

/** Maximum length of a name in presentation form without the trailing dot (RFC 1035, 2.3.4: 255 octets on the wire). */
const MAX_NAME_BYTES = 253;
/**
 * Maximum number of labels of a name. DNS allows 127, but public names rarely have ten. Without this limit, work per
 * label would cost ten times as much for names of the same size.
 */
const MAX_LABELS = 32;
/** RFC 1123, 2.1: letters, digits and inner hyphens, at most 63 bytes. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const NUMERIC = /^(?:[0-9]+|0x[0-9a-f]*)$/;

/** A hostname that is safe in a hosts file, a wildcard `*.rest`, or the reason why the text is neither. */
type ParsedName =
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "wildcard"; readonly name: string }
  | { readonly kind: "invalid"; readonly reason: Reason };

/**
 * Validates a hostname as a tenant wrote it. Case is folded (RFC 4343), and nothing else is normalized. A trailing
 * dot, a space or a non-ASCII letter is refused, so the mapped name is exactly the one in the object. A numeric last
 * label is refused too: many resolvers read such a name as an IPv4 address (WHATWG URL, "ends in a number").
 */
export function parseHostname(text: string): ParsedName {
  if (typeof text !== "string" || text === "") return invalid("a hostname must not be empty");
  if (text.length > MAX_NAME_BYTES) {
    return invalid(`a hostname has at most ${MAX_NAME_BYTES} bytes, this one has ${text.length}`);
  }
  const lower = foldCase(text);
  const wildcard = lower.startsWith("*.");
  const name = wildcard ? lower.slice(2) : lower;
  const labels = name.split(".");
  const bad = labels.find((label) => !LABEL.test(label));
  if (bad !== undefined) return invalidLabel(text, bad);
  if (labels.length > MAX_LABELS) {
    return invalid(`a hostname has at most ${MAX_LABELS} labels, this one has ${labels.length}`);
  }
  if (labels.length < 2) return invalid(`${show(text)} has one label; a public name has at least two`);
  const last = labels[labels.length - 1] ?? "";
  if (NUMERIC.test(last)) return invalid(`${show(text)} is, or would be read as, an IP address`);
  return wildcard ? { kind: "wildcard", name: lower } : { kind: "name", name };
}

/**
 * Lower-cases only ASCII letters. `toLowerCase` turns the Kelvin sign into a `k`, and so an invalid name into a valid
 * one.
 */
export function foldCase(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

function invalidLabel(text: string, label: string): ParsedName {
  if (text.includes(":")) return invalid(`${show(text)} is an IPv6 address or has a port; a hostname is expected`);
  const what = label === "" ? "an empty label (a leading, doubled or trailing dot)" : `the label ${show(label)}`;
  return invalid(
    `${show(text)} has ${what}; labels have 1 to 63 letters, digits and inner hyphens; write IDNA names as xn--`,
  );
}

function invalid(text: string): ParsedName {
  return { kind: "invalid", reason: { code: "name-invalid", text } };
}

/** Returns the names above a name, nearest first: `c.b.a` -> `b.a`, `a`. */
export function parentsOf(name: string): string[] {
  const parents: string[] = [];
  for (let dot = name.indexOf("."); dot !== -1; dot = name.indexOf(".", dot + 1)) parents.push(name.slice(dot + 1));
  return parents;
}

/** Escapes untrusted text for a log, an Event or a terminal: a JSON string of at most 80 characters before escaping. */
export function show(text: string): string {
  const escaped = JSON.stringify(text.length > 80 ? `${text.slice(0, 77)}...` : text);
  return escaped.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A pattern of names: `*` (all), `*.example.com` (every name below it, at any depth) or one name. */
export type Glob = { readonly text: string; readonly matches: (name: string) => boolean };

/**
 * Parses a pattern, or returns a reason that lists the accepted forms. `*.` may be followed by a single label:
 * `*.local`.
 */
export function parseGlob(text: string): Glob | Reason {
  const lower = foldCase(text.trim());
  if (lower === "*") return { text: lower, matches: () => true };
  if (lower.startsWith("*.") && isSuffix(lower.slice(2))) {
    const suffix = lower.slice(1);
    return { text: lower, matches: (name) => name.endsWith(suffix) };
  }
  const parsed = parseHostname(lower);
  if (parsed.kind === "name") return { text: lower, matches: (name) => name === parsed.name };
  return {
    code: "name-invalid",
    text: `${show(text)} is not a pattern; accepted are a name (api.example.com), *.example.com and *`,
  };
}

function isSuffix(text: string): boolean {
  if (text.length > MAX_NAME_BYTES) return false;
  const labels = text.split(".");
  return labels.length <= MAX_LABELS && labels.every((label) => LABEL.test(label));
}

/** Whether `parseGlob` returned a pattern. */
export function isGlob(value: Glob | Reason): value is Glob {
  return "matches" in value;
}

/** Parses patterns. A pattern that does not parse matches nothing. */
export function globsOf(texts: readonly string[]): Glob[] {
  return texts.map(parseGlob).filter(isGlob);
}

/** Compares by code units: the order is the same on every machine, whatever its locale. */
export function compareNames(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
