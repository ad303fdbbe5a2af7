import { type JsonPath, jsonPath } from "../../../config/json-path.ts";
import { show } from "../../../hostmap/hostnames.ts";
import { IGNORE_KEY } from "../../../hostmap/metadata-keys.ts";
import type { Reason } from "../../../hostmap/types.ts";
import { ClaimList, MAX_NAMES_PER_OBJECT } from "../claim-list.ts";
import { mapOf, type Raw, textOf } from "../raw-object.ts";
import type { RoutingHints, UnresolvedClaim } from "../types.ts";
import { namesIn } from "./names.ts";
import type { CustomKind } from "./presets.ts";

/** Stands for a value that is no name at all, so that status can say why: `.invalid` is nobody's (RFC 2606). */
const UNREADABLE = "unreadable.invalid";
/** Addresses and classes that are looked at. */
const MAX_VALUES = 16;

/** Turns an object of a kind that the API server may not have checked into claims; `kind` is what the API calls it. */
type CustomReader = (raw: Raw, kind: string) => readonly UnresolvedClaim[];

/** How the objects of a custom source are read. */
export function customReader(source: CustomKind): CustomReader {
  const hostnames = jsonPath(source.hostnames);
  const hintsOf = clueReader(source);
  return (raw, kind) => {
    const metadata = mapOf(raw.metadata);
    const ref = { kind, namespace: textOf(metadata.namespace) ?? "", name: textOf(metadata.name) ?? "" };
    const claims = new ClaimList({ ref, created: textOf(metadata.creationTimestamp) ?? "" });
    try {
      const hints = hintsOf(raw, kind);
      for (const value of hostnames(raw, MAX_NAMES_PER_OBJECT + 1)) claimValue(value, source, hints, claims);
    } catch (error) {
      claims.add(UNREADABLE, { code: "path-failed", text: `${source.hostnames}: ${show(String(error))}` });
    }
    return claims.all;
  };
}

function claimValue(
  value: unknown,
  { hostnames, syntax }: CustomKind,
  hints: RoutingHints | Reason,
  claims: ClaimList,
): void {
  if (value === null) return;
  const names = typeof value === "string" ? namesIn(value, syntax) : undefined;
  for (const name of names ?? []) claims.add(name, hints);
  if (names !== undefined) return;
  const text = `${hostnames} leads to ${show(JSON.stringify(value))}, which is no ${syntax}`;
  claims.add(UNREADABLE, { code: "syntax-invalid", text });
}

/** What an object tells of its controller. One that says nothing of being admitted counts as admitted. */
function clueReader(source: CustomKind): (raw: Raw, kind: string) => RoutingHints | Reason {
  const classes = source.classes.map(jsonPath);
  const addresses = source.addresses === undefined ? undefined : jsonPath(source.addresses);
  const admitted = source.admitted === undefined ? undefined : jsonPath(source.admitted);
  return (raw, kind) => {
    if (mapOf(mapOf(raw.metadata).annotations)[IGNORE_KEY] === "true") {
      return { code: "ignored", text: `the ${kind} carries ${IGNORE_KEY}: "true"` };
    }
    return {
      className: classes.flatMap((path) => textsAt(path, raw))[0] ?? source.className,
      addresses: addresses === undefined ? [] : [...new Set(textsAt(addresses, raw))],
      admitted: admitted === undefined || admitted(raw, 1).length > 0,
    };
  };
}

function textsAt(path: JsonPath, raw: Raw): string[] {
  return path(raw, MAX_VALUES).filter((value): value is string => textOf(value) !== undefined);
}
