import * as v from "valibot";
import { parseHostname, show } from "#hostmap/hostnames.ts";
import { HOSTS_KEY, PREFIX, USER_KEYS, WRITTEN_KEYS } from "#hostmap/metadata-keys.ts";
import { parseHostsAnnotation } from "#hostmap/pod-selection.ts";
import type { Reason } from "#hostmap/types.ts";
import { finite, object, record } from "#lib/errors/schemas.ts";
import { parse, type Schema, validate } from "#lib/errors/validation.ts";
import { isGatewayKind, isSetKind } from "./gateway/files.ts";
import type { SourceProblem } from "./types.ts";
import { type FileObject, isIngressKind } from "./yaml-file.ts";

type Path = readonly (string | number)[];

/**
 * The paths of labels and annotations that affect pods: of the object itself, a workload's pod template, or a
 * CronJob's.
 */
const METADATA: readonly Path[] = [
  ["metadata"],
  ["spec", "template", "metadata"],
  ["spec", "jobTemplate", "spec", "template", "metadata"],
];

const strings = v.nullish(record(v.string(), v.string()));
const metadataSchema = v.nullish(object({ labels: strings, annotations: strings }));

/** The fields of an Ingress that are read; the API server would reject other types. */
const ingressSchema = object({
  spec: v.nullish(
    object({
      ingressClassName: v.nullish(v.string()),
      rules: v.nullish(v.array(v.nullable(object({ host: v.nullish(v.string()) })))),
      tls: v.nullish(v.array(v.nullable(object({ hosts: v.nullish(v.array(v.string())) })))),
    }),
  ),
});

const gatewaySchema = object({
  spec: v.nullish(
    object({
      gatewayClassName: v.nullish(v.string()),
      listeners: v.nullish(
        v.array(object({ name: v.string(), port: finite, protocol: v.string(), hostname: v.nullish(v.string()) })),
      ),
    }),
  ),
});

const routeSchema = object({
  spec: v.nullish(
    object({
      hostnames: v.nullish(v.array(v.string())),
      parentRefs: v.nullish(
        v.array(
          object({
            name: v.string(),
            namespace: v.nullish(v.string()),
            sectionName: v.nullish(v.string()),
            port: v.nullish(finite),
          }),
        ),
      ),
    }),
  ),
});

/** A hostname and its path in the object. */
interface Host {
  readonly host: string;
  readonly path: Path;
}

interface KnownKind {
  readonly schema: Schema;
  readonly hosts: (raw: unknown) => Iterable<Host>;
}

/**
 * Problems that a person should fix in an object of a file: fields of another type, unknown switchback.dev keys,
 * invalid values and hostnames.
 */
export function validateObject(object: FileObject): SourceProblem[] {
  const problems = METADATA.flatMap((path) => [
    ...checkTypes(object, metadataSchema, path),
    ...checkKeys(object, "label", [...path, "labels"]),
    ...checkKeys(object, "annotation", [...path, "annotations"]),
  ]);
  const known = knownKind(object);
  if (known === undefined) return problems;
  return [...problems, ...checkTypes(object, known.schema, []), ...checkHosts(object, known)];
}

/** The kinds that names are read from; the API server would reject other types. */
function knownKind(object: FileObject): KnownKind | undefined {
  if (isIngressKind(object, "Ingress")) return { schema: ingressSchema, hosts: hostsOfIngress };
  if (!isGatewayKind(object)) return undefined;
  return object.raw.kind === "Gateway" || isSetKind(object.raw.kind)
    ? { schema: gatewaySchema, hosts: hostsOfGateway }
    : { schema: routeSchema, hosts: hostsOfRoute };
}

function checkTypes(file: FileObject, schema: Schema, path: Path): SourceProblem[] {
  return validate(schema, at(file.raw, path)).flaws.map((flaw) => ({
    place: file.place([...path, ...flaw.path]),
    code: "wrong-type",
    text: flaw.message,
  }));
}

function checkKeys(object: FileObject, on: "label" | "annotation", path: Path): SourceProblem[] {
  return Object.entries(at(object.raw, path) ?? {})
    .filter(([key]) => key.startsWith(PREFIX) && !WRITTEN_KEYS.includes(key))
    .flatMap(([key, value]) =>
      faultsOf(on, key, value).map((fault) => ({ place: object.place([...path, key]), ...fault })),
    );
}

function faultsOf(on: "label" | "annotation", key: string, value: unknown): readonly Reason[] {
  const known = Object.hasOwn(USER_KEYS, key) ? USER_KEYS[key] : undefined;
  if (known === undefined || known.on !== on) {
    const accepted = Object.keys(USER_KEYS).filter((name) => USER_KEYS[name]?.on === on);
    return [{ code: "unknown-key", text: `there is no ${on} ${show(key)}; accepted are ${accepted.join(", ")}` }];
  }
  // `checkTypes` has already reported a value of another type.
  if (typeof value !== "string") return [];
  if (known.values !== undefined && !known.values.includes(value)) {
    const text = `${show(value)} is not accepted; accepted are ${known.values.join(", ")}`;
    return [{ code: "unknown-value", text }];
  }
  return key === HOSTS_KEY ? parseHostsAnnotation(value).warnings : [];
}

function* checkHosts(object: FileObject, { schema, hosts }: KnownKind): Iterable<SourceProblem> {
  // Values of another type are already reported, and must be fixed first.
  if (validate(schema, object.raw).flaws.length > 0) return;
  for (const { host, path } of hosts(object.raw)) yield* checkHost(object, host, path);
}

function* hostsOfIngress(raw: unknown): Iterable<Host> {
  const { spec } = parse(ingressSchema, raw);
  for (const [index, rule] of (spec?.rules ?? []).entries()) {
    yield { host: rule?.host ?? "", path: ["spec", "rules", index, "host"] };
  }
  for (const [index, tls] of (spec?.tls ?? []).entries()) {
    for (const [place, host] of (tls?.hosts ?? []).entries()) {
      yield { host, path: ["spec", "tls", index, "hosts", place] };
    }
  }
}

function* hostsOfGateway(raw: unknown): Iterable<Host> {
  for (const [index, listener] of (parse(gatewaySchema, raw).spec?.listeners ?? []).entries()) {
    yield { host: listener.hostname ?? "", path: ["spec", "listeners", index, "hostname"] };
  }
}

function* hostsOfRoute(raw: unknown): Iterable<Host> {
  for (const [index, host] of (parse(routeSchema, raw).spec?.hostnames ?? []).entries()) {
    yield { host, path: ["spec", "hostnames", index] };
  }
}

/** An empty host means every name, and claims no name. */
function* checkHost(object: FileObject, host: string, path: Path): Iterable<SourceProblem> {
  if (host === "") return;
  const parsed = parseHostname(host);
  if (parsed.kind === "invalid") yield { place: object.place(path), ...parsed.reason };
}

/** The value at a path, or undefined. */
function at(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (inner, step) =>
      typeof inner === "object" && inner !== null && Object.hasOwn(inner, step)
        ? (inner as Record<string | number, unknown>)[step]
        : undefined,
    value,
  );
}
