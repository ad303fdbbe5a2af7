import { groupOf } from "#lib/kube/paths.ts";
import type { ApiObject } from "#lib/kube/types.ts";

// The fields of an object that a dump keeps. Objects have passwords in fields that Switchback never reads: variables
// of containers, keys of Routes, headers that a route sets, settings of DNS providers.

type Fields = Readonly<Record<string, unknown>>;

/** The fields of `spec` and `status` to keep, by `Kind.group`. Other kinds keep all fields except `HIDDEN`. */
const KEPT: Readonly<Record<string, { readonly spec: readonly string[]; readonly status: readonly string[] }>> = {
  "Pod.": { spec: ["nodeName", "hostNetwork", "hostAliases", "dnsPolicy", "dnsConfig"], status: ["phase", "podIPs"] },
  "Node.": { spec: ["providerID", "podCIDRs"], status: ["addresses"] },
  "Namespace.": { spec: [], status: ["phase"] },
};
const WORKLOADS: ReadonlySet<string> = new Set(["Deployment.apps", "DaemonSet.apps", "StatefulSet.apps"]);
const ISSUERS: ReadonlySet<string> = new Set(["ClusterIssuer.cert-manager.io", "Issuer.cert-manager.io"]);
/** Fields to remove from other kinds, at any depth. */
const HIDDEN =
  /^(?:certificate|caCertificate|destinationCACertificate|headers?|filters|\w*HeadersPolicy|cookies|env)$/i;
/** Server side settings of ingress controllers, which often contain tokens and addresses of other systems. */
const HIDDEN_ANNOTATION = /(?:^kubectl\.kubernetes\.io\/last-applied-configuration|-snippet|snippets)$/;

/** Removes the fields that may be secret. */
export function publicObject(object: ApiObject): ApiObject {
  const { kind = "", metadata, spec, status, ...rest } = object as ApiObject & { spec?: Fields; status?: Fields };
  const { managedFields: _, annotations, ...ownMetadata } = (metadata ?? {}) as Fields & { annotations?: Fields };
  const kindInGroup = `${kind}.${groupOf(object.apiVersion)}`;
  const kept = KEPT[kindInGroup];
  const parts = {
    ...(annotations !== undefined && { annotations: without(annotations, HIDDEN_ANNOTATION) }),
  };
  return {
    kind,
    ...(kept === undefined ? (visible(rest) as object) : identity(rest)),
    metadata: { ...ownMetadata, ...parts },
    ...(spec !== undefined && { spec: publicSpec(kindInGroup, spec) }),
    ...(status !== undefined && { status: kept === undefined ? visible(status) : pick(status, kept.status) }),
  } as ApiObject;
}

function identity({ apiVersion }: Fields): object {
  return { apiVersion };
}

function publicSpec(kindInGroup: string, spec: Fields): unknown {
  const kept = KEPT[kindInGroup];
  if (kept !== undefined) return pick(spec, kept.spec);
  if (WORKLOADS.has(kindInGroup)) return publicWorkload(spec as WorkloadSpec);
  if (ISSUERS.has(kindInGroup)) return publicIssuer(spec as IssuerSpec);
  const { tls } = spec;
  // Only a Route has a map here. It contains the Route's private key.
  if (typeof tls === "object" && tls !== null && "key" in tls)
    return visible({ ...spec, tls: { ...tls, key: undefined } });
  return visible(spec);
}

interface WorkloadSpec {
  readonly replicas?: number;
  readonly selector?: object;
  readonly template?: { readonly metadata?: object; readonly spec?: { readonly containers?: Fields[] } & Fields };
}

function publicWorkload({ replicas, selector, template }: WorkloadSpec): object {
  const { containers = [], volumes } = template?.spec ?? {};
  const ofConfig = (Array.isArray(volumes) ? volumes : []).filter((volume) => volume?.configMap !== undefined);
  const spec = {
    containers: containers.map((container) => pick(container, ["name", "image", "imagePullPolicy"])),
    volumes: ofConfig.map((volume) => pick(volume, ["name", "configMap"])),
  };
  return { replicas, selector, template: { spec } };
}

interface IssuerSpec {
  readonly acme?: { readonly solvers?: readonly Fields[] | null };
}

function publicIssuer({ acme }: IssuerSpec): object {
  if (acme === undefined) return {};
  const solvers = (acme.solvers ?? []).map(({ http01, waitInsteadOfSelfCheck }) => ({
    ...(http01 !== undefined && http01 !== null && { http01: {} }),
    ...(waitInsteadOfSelfCheck !== undefined && { waitInsteadOfSelfCheck }),
  }));
  return { acme: { solvers } };
}

/** Keeps only a Secret's certificate. It is public: every client of the webhook gets it. */
export function publicSecret(secret: object): object {
  const certificate = (secret as { data?: Fields }).data?.["tls.crt"];
  return certificate === undefined ? {} : { data: { "tls.crt": certificate } };
}

/** Keeps only whether the dry-run pod was injected. Other webhooks may have added anything. */
export function publicPodAnswer(pod: object): object {
  const annotations = (pod as ApiObject).metadata?.annotations ?? {};
  const own = Object.entries(annotations).filter(([key]) => key.startsWith("switchback.dev/"));
  return { metadata: { annotations: Object.fromEntries(own) } };
}

function pick(fields: Fields, keys: readonly string[]): Fields {
  return Object.fromEntries(keys.filter((key) => key in fields).map((key) => [key, fields[key]]));
}

function without(fields: Fields, hidden: RegExp): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => !hidden.test(key)));
}

/** Removes hidden fields, at any depth. */
function visible(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(visible);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).filter(([key]) => !HIDDEN.test(key));
  return Object.fromEntries(fields.map(([key, field]) => [key, visible(field)]));
}
