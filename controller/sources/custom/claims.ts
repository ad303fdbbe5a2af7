import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { type JsonPath, jsonPath } from "#lib/config/json-path.ts";
import type { CustomSource } from "#lib/config/schema.ts";
import { ClaimList, MAX_NAMES_PER_OBJECT } from "../claim-list.ts";
import { copied, ignoredBy, type ObjectOrigin, originOf, type Raw, textOf, withChoice } from "../raw-object.ts";
import type { RoutingHints, View } from "../types.ts";
import { namesIn } from "./names.ts";

/** The paths to what a claim needs in the objects of a kind: JSONPaths (RFC 9535) from the root of the object. */
export interface ClaimPaths {
  readonly hostnames: string;
  readonly syntax: CustomSource["syntax"];
  /** Paths to the class. The first one that exists is used, else `className`. */
  readonly classes: readonly string[];
  readonly className: string | undefined;
  /** The controller that serves the kind, as an IngressClass names it. */
  readonly controller?: string;
  readonly addresses?: string | undefined;
  /** Selects a value once a controller has admitted the object. */
  readonly admitted?: string | undefined;
  /** Whether an object needs admission for any name, whatever the policy says. */
  readonly mustBeAdmitted?: boolean;
}

/**
 * The hostname of a claim whose value is not a name, so that the status can report the claim. RFC 2606 reserves
 * `.invalid`.
 */
const UNREADABLE = "unreadable.invalid";
/** Maximum number of addresses and of classes that are read. */
const MAX_VALUES = 16;

/**
 * Converts an object to claims. The API server may not have validated objects of its kind. `kind` is the API's name
 * of the kind.
 */
export type CustomReader = (raw: Raw, kind: string) => readonly View[];

/** Returns the reader for the objects of a custom kind. */
export function customReader(source: ClaimPaths): CustomReader {
  const hostnames = jsonPath(source.hostnames);
  const hintsOf = clueReader(source);
  return (raw, kind) => {
    const origin = originOf(kind, raw);
    const claims = new ClaimList(origin);
    try {
      const hints = withChoice(hintsOf(raw, origin), origin);
      for (const value of hostnames(raw, MAX_NAMES_PER_OBJECT + 1)) claimValue(value, source, hints, claims);
    } catch (error) {
      claims.add(UNREADABLE, { code: "path-failed", text: `${source.hostnames}: ${show(String(error))}` });
    }
    return claims.all;
  };
}

function claimValue(
  value: unknown,
  { hostnames, syntax }: ClaimPaths,
  hints: RoutingHints | Reason,
  claims: ClaimList,
): void {
  if (value === null) return;
  const names = typeof value === "string" ? namesIn(value, syntax) : undefined;
  for (const name of names ?? []) claims.add(name, hints);
  if (names !== undefined) return;
  const text = `${hostnames} selects ${show(JSON.stringify(value))}, which does not have the syntax ${syntax}`;
  claims.add(UNREADABLE, { code: "path-failed", text });
}

/** The routing hints of an object. If the kind has no path for admission, the object counts as admitted. */
function clueReader(source: ClaimPaths): (raw: Raw, origin: ObjectOrigin) => RoutingHints | Reason {
  const classes = source.classes.map(jsonPath);
  const addresses = source.addresses === undefined ? undefined : jsonPath(source.addresses);
  const admitted = source.admitted === undefined ? undefined : jsonPath(source.admitted);
  return (raw, { ref: { kind }, ignored }) => {
    if (ignored) return ignoredBy(kind);
    const isAdmitted = admitted === undefined || admitted(raw, 1).length > 0;
    if (source.mustBeAdmitted && !isAdmitted) {
      return {
        code: "not-admitted",
        text: `no controller has admitted the ${kind}: ${source.admitted} selects nothing`,
      };
    }
    return {
      className: classes.flatMap((path) => textsAt(path, raw))[0] ?? source.className,
      ...(source.controller !== undefined && { controller: source.controller }),
      addresses: addresses === undefined ? [] : [...new Set(textsAt(addresses, raw))],
      admitted: isAdmitted,
    };
  };
}

function textsAt(path: JsonPath, raw: Raw): string[] {
  return path(raw, MAX_VALUES).flatMap((value) => (textOf(value) === undefined ? [] : copied(value as string)));
}
