import * as z from "zod";
import { parseHostname, show } from "#hostmap/hostnames.ts";
import { HOSTS_KEY, PREFIX, USER_KEYS, WRITTEN_KEYS } from "#hostmap/metadata-keys.ts";
import { parseHostsAnnotation } from "#hostmap/select-hosts.ts";
import type { Reason } from "#hostmap/types.ts";
import { isGatewayKind } from "./gateway/files.ts";
import type { SourceProblem } from "./types.ts";
import type { FileObject } from "./yaml-file.ts";

type Path = readonly (string | number)[];

/** The paths of labels and annotations for pods: the object itself, a workload's pod template, a CronJob's. */
const METADATA: readonly Path[] = [
  ["metadata"],
  ["spec", "template", "metadata"],
  ["spec", "jobTemplate", "spec", "template", "metadata"],
];

const strings = z.record(z.string(), z.string()).nullish();
const metadataShape = z.looseObject({ labels: strings, annotations: strings }).nullish();

/** The fields of an Ingress that are read; the API server would reject other types. */
const ingressShape = z.looseObject({
  spec: z
    .looseObject({
      ingressClassName: z.string().nullish(),
      rules: z.array(z.looseObject({ host: z.string().nullish() }).nullable()).nullish(),
      tls: z.array(z.looseObject({ hosts: z.array(z.string()).nullish() }).nullable()).nullish(),
    })
    .nullish(),
});

const gatewayShape = z.looseObject({
  spec: z
    .looseObject({
      gatewayClassName: z.string().nullish(),
      listeners: z
        .array(
          z.looseObject({ name: z.string(), port: z.number(), protocol: z.string(), hostname: z.string().nullish() }),
        )
        .nullish(),
    })
    .nullish(),
});

const routeShape = z.looseObject({
  spec: z
    .looseObject({
      hostnames: z.array(z.string()).nullish(),
      parentRefs: z
        .array(
          z.looseObject({
            name: z.string(),
            namespace: z.string().nullish(),
            sectionName: z.string().nullish(),
            port: z.number().nullish(),
          }),
        )
        .nullish(),
    })
    .nullish(),
});

/** A hostname and its path. */
interface Host {
  readonly host: string;
  readonly path: Path;
}

interface KnownShape {
  readonly shape: z.ZodType;
  readonly hosts: (raw: unknown) => Iterable<Host>;
}

/** Problems that a person should fix in an object of a file: fields of another type, unknown switchback.dev keys, invalid values and hostnames. */
export function validateObject(object: FileObject): SourceProblem[] {
  const problems = METADATA.flatMap((path) => [
    ...checkShape(object, metadataShape, path),
    ...checkKeys(object, "label", [...path, "labels"]),
    ...checkKeys(object, "annotation", [...path, "annotations"]),
  ]);
  const known = knownShape(object);
  if (known === undefined) return problems;
  return [...problems, ...checkShape(object, known.shape, []), ...checkHosts(object, known)];
}

/** The kinds that names are read from; the API server would reject other types. */
function knownShape(object: FileObject): KnownShape | undefined {
  if (object.raw.kind === "Ingress") return { shape: ingressShape, hosts: hostsOfIngress };
  if (!isGatewayKind(object)) return undefined;
  return object.raw.kind === "Gateway" || object.raw.kind === "ListenerSet"
    ? { shape: gatewayShape, hosts: hostsOfGateway }
    : { shape: routeShape, hosts: hostsOfRoute };
}

function checkShape(object: FileObject, shape: z.ZodType, path: Path): SourceProblem[] {
  const { error } = shape.safeParse(at(object.raw, path));
  return (error?.issues ?? []).map((issue) => ({
    place: object.place([...path, ...issue.path.filter((step) => typeof step !== "symbol")]),
    code: "wrong-type",
    text: issue.message,
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
  // `checkShape` has reported another type.
  if (typeof value !== "string") return [];
  if (known.values !== undefined && !known.values.includes(value)) {
    const text = `${show(value)} is not accepted; accepted are ${known.values.join(", ")}`;
    return [{ code: "unknown-value", text }];
  }
  return key === HOSTS_KEY ? parseHostsAnnotation(value).warnings : [];
}

function* checkHosts(object: FileObject, { shape, hosts }: KnownShape): Iterable<SourceProblem> {
  // Another type has already been reported, and must be fixed first.
  if (!shape.safeParse(object.raw).success) return;
  for (const { host, path } of hosts(object.raw)) yield* checkHost(object, host, path);
}

function* hostsOfIngress(raw: unknown): Iterable<Host> {
  const { spec } = ingressShape.parse(raw);
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
  for (const [index, listener] of (gatewayShape.parse(raw).spec?.listeners ?? []).entries()) {
    yield { host: listener.hostname ?? "", path: ["spec", "listeners", index, "hostname"] };
  }
}

function* hostsOfRoute(raw: unknown): Iterable<Host> {
  for (const [index, host] of (routeShape.parse(raw).spec?.hostnames ?? []).entries()) {
    yield { host, path: ["spec", "hostnames", index] };
  }
}

/** An empty host means every name, and claims none. */
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
