import { PREFIX, USER_KEYS, WRITTEN_KEYS } from "../hosts/keys.ts";
import { parseHostname, show } from "../hosts/names.ts";
import type { RawIngress } from "./ingress-claims.ts";
import type { SourceProblem } from "./types.ts";
import type { FileObject } from "./yaml-file.ts";

/** What a person should mend in an object of a file: keys of ours that do not exist, and hostnames that cannot be mapped. */
export function checkFileObject(object: FileObject): SourceProblem[] {
  const problems = [...checkKeys(object, "label", "labels"), ...checkKeys(object, "annotation", "annotations")];
  if (object.raw.kind === "Ingress") problems.push(...checkHosts(object));
  return problems;
}

function* checkKeys(
  object: FileObject,
  on: "label" | "annotation",
  field: "labels" | "annotations",
): Iterable<SourceProblem> {
  for (const [key, value] of Object.entries(object.raw.metadata[field] ?? {})) {
    if (!key.startsWith(PREFIX) || WRITTEN_KEYS.includes(key)) continue;
    const place = object.place(["metadata", field, key]);
    const known = Object.hasOwn(USER_KEYS, key) ? USER_KEYS[key] : undefined;
    if (known === undefined || known.on !== on) {
      const accepted = Object.keys(USER_KEYS).filter((name) => USER_KEYS[name]?.on === on);
      yield { place, code: "unknown-key", text: `there is no ${on} ${show(key)}; accepted are ${accepted.join(", ")}` };
    } else if (known.values !== undefined && !known.values.includes(value)) {
      yield {
        place,
        code: "unknown-value",
        text: `${show(String(value))} is not accepted; accepted are ${known.values.join(", ")}`,
      };
    }
  }
}

function* checkHosts(object: FileObject): Iterable<SourceProblem> {
  const { spec } = object.raw as RawIngress;
  for (const [index, rule] of (spec?.rules ?? []).entries()) {
    if (rule?.host) yield* checkHost(object, rule.host, ["spec", "rules", index, "host"]);
  }
  for (const [index, tls] of (spec?.tls ?? []).entries()) {
    for (const [place, host] of (tls?.hosts ?? []).entries()) {
      if (host) yield* checkHost(object, host, ["spec", "tls", index, "hosts", place]);
    }
  }
}

function* checkHost(object: FileObject, host: string, path: readonly (string | number)[]): Iterable<SourceProblem> {
  const parsed = parseHostname(host);
  if (parsed.kind === "invalid") yield { place: object.place(path), ...parsed.reason };
}
