import * as v from "valibot";
import { isProtocolAnnotation } from "#controller/targets/proxy-protocol-annotations.ts";
import { ANNOUNCED, PROVIDERS } from "#doctor/providers.ts";
import { PREFIX } from "#hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "#hostmap/opt-in.ts";
import type { CustomSource } from "#lib/config/schema.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { SCHEMAS } from "./schemas.ts";

// What a dump keeps of an answer. Objects have passwords in fields and annotations that Switchback never reads.

type Fields = Readonly<Record<string, unknown>>;

/** Annotations that doctor and controller read, besides Switchback's own and those about PROXY headers. */
export const READ_ANNOTATIONS: readonly string[] = [
  MIRROR_KEY,
  "kubernetes.io/ingress.class",
  "projectcontour.io/ingress.class",
  "ingressclass.kubernetes.io/is-default-class",
  "networking.istio.io/service-type",
  "nginx.ingress.kubernetes.io/canary",
  "nginx.ingress.kubernetes.io/from-to-www-redirect",
  "nginx.ingress.kubernetes.io/server-alias",
];
/** External-dns has any prefix (`sources.services.annotationPrefixes`). */
const EXTERNAL_DNS = /\/hostname$/;

/** The fields and quoted keys that the paths of the configured kinds name, by `resource.group`. */
export type CustomFields = ReadonlyMap<string, Names>;
type Names = Pick<ReadonlySet<string>, "has">;

const NAME = /'([^']*)'|"([^"]*)"|[A-Za-z_][\w-]*/g;

/** A `[*]` counts as a selection from a list. With a path that selects from maps, every field may be read. */
export function customFields(sources: readonly CustomSource[]): CustomFields {
  const fields = sources.map((source): [string, Names] => {
    const { hostnames, class: classPath = "", addresses = "", admitted = "" } = source;
    const paths = [hostnames, classPath, addresses, admitted].join(" ");
    const names = Array.from(paths.matchAll(NAME), ([word, single, double]) => single ?? double ?? word);
    return [inGroup(source.resource, source.group), /\.[.*]/.test(paths) ? { has: () => true } : new Set(names)];
  });
  return new Map(fields);
}

/** A resource or kind with its group: `ingresses.networking.k8s.io`; in the core group, the name alone. */
export function inGroup(name: string, group: string): string {
  return group === "" ? name : `${name}.${group}`;
}

const NO_NAMES: Names = new Set();

/**
 * Keeps the fields that doctor and controller read. Of a kind that only the configuration names, these are the fields
 * that its paths name. Undefined if a field has a type that the API server does not accept.
 */
export function publicObject(type: string, object: ApiObject, custom: CustomFields): ApiObject | undefined {
  const schema = SCHEMAS.get(type);
  const names = custom.get(type) ?? NO_NAMES;
  const kept = schema === undefined ? namedIn(object, names) : attempt(schema, object).value;
  if (kept === undefined) return undefined;
  const { apiVersion, kind, metadata: { name, namespace, creationTimestamp, annotations = {} } = {} } = object;
  const { metadata, ...parts } = kept as ApiObject;
  const identity = { name, namespace, creationTimestamp, annotations: readAnnotations(annotations, names) };
  return { ...parts, apiVersion, kind, metadata: { ...metadata, ...identity } } as ApiObject;
}

/** More than any path has. The depth of an object without a schema has no limit. */
const MAX_DEPTH = 100;

/** The fields with these names, at any depth. */
function namedIn(value: unknown, names: Names, depth = 0): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (depth > MAX_DEPTH) return undefined;
  if (Array.isArray(value)) return value.map((each) => namedIn(each, names, depth + 1));
  const fields = Object.entries(value).filter(([key]) => names.has(key));
  return Object.fromEntries(fields.map(([key, field]) => [key, namedIn(field, names, depth + 1)]));
}

/** Of other annotations, keeps whose they are: the doctor recognizes the cloud provider and who announces by them. */
function readAnnotations(annotations: Readonly<Record<string, string>>, more: Names) {
  const kept: Record<string, string> = {};
  for (const [key, value] of Object.entries(annotations)) {
    const provider = PROVIDERS.flatMap(({ annotations }) => annotations).find((prefix) => key.startsWith(prefix));
    if (isRead(key) || more.has(key)) kept[key] = value;
    else if (ANNOUNCED.includes(key)) kept[key] = "";
    else if (provider !== undefined) kept[provider] = "";
  }
  return kept;
}

function isRead(key: string): boolean {
  return (
    READ_ANNOTATIONS.includes(key) || key.startsWith(PREFIX) || isProtocolAnnotation(key) || EXTERNAL_DNS.test(key)
  );
}

const text = v.fallback(v.string(), "");
/** The answers of the API server's discovery. */
export const discoverySchema = object({
  versions: v.optional(v.array(object({ version: text }))),
  resources: v.optional(v.array(object({ name: text, kind: text, verbs: v.fallback(v.array(text), []) }))),
});

/** Keeps what is read of an answer that is not an object: the versions and resources of a group. */
export function publicAnswer(answer: object): object {
  return attempt(discoverySchema, answer).value ?? {};
}

/** Keeps only a Secret's certificate. It is public: every client of the webhook gets it. */
export function publicSecret(secret: object): object {
  const certificate = (secret as { data?: Fields }).data?.["tls.crt"];
  return certificate === undefined ? {} : { data: { "tls.crt": certificate } };
}

/** Keeps only whether the dry-run pod was injected. Other webhooks may have added anything. */
export function publicPodAnswer(pod: object): object {
  const annotations = (pod as ApiObject).metadata?.annotations ?? {};
  const own = Object.entries(annotations).filter(([key]) => key.startsWith(PREFIX));
  return { metadata: { annotations: Object.fromEntries(own) } };
}
