import { randomUUID } from "node:crypto";
import { request } from "node:https";
import { applyPatch, type Operation } from "rfc6902";
import { INJECT_KEY } from "#hostmap/metadata-keys.ts";
import { isNamespaceOptedIn } from "#hostmap/opt-in.ts";
import type { HostAlias } from "#hostmap/types.ts";
import type { KubeObject } from "./objects.ts";
import { send } from "./send.ts";

/** A pod of the directory (or of a workload in it), as the API server would send it to a webhook. */
export interface DemoPod {
  readonly name: string;
  readonly namespace: string;
  readonly object: PodObject;
  /** The webhook entry whose selectors match; undefined if none does. */
  readonly optIn: "namespace" | "pod" | undefined;
}

interface PodObject {
  readonly apiVersion: "v1";
  readonly kind: "Pod";
  readonly metadata: KubeObject["metadata"];
  readonly spec: { hostAliases?: HostAlias[] };
}

/** The webhook's result for a pod. */
export interface Admitted {
  readonly warnings: readonly string[];
  readonly hostAliases: readonly HostAlias[];
}

interface Workload extends KubeObject {
  readonly spec?: { readonly template?: { readonly metadata?: object; readonly spec?: object } };
}

/** The pods of a directory: its single pods, and one pod per workload template. */
export function podsOf(objects: readonly KubeObject[]): DemoPod[] {
  const namespaces = new Map(
    objects.filter(({ kind }) => kind === "Namespace").map(({ metadata }) => [metadata.name, metadata.labels ?? {}]),
  );
  return objects.flatMap((raw) => {
    const template = raw.kind === "Pod" ? raw : (raw as Workload).spec?.template;
    if (template === undefined) return [];
    const metadata = { ...(template as Partial<KubeObject>).metadata, name: raw.metadata.name };
    const namespace = raw.metadata.namespace ?? "default";
    const spec = structuredClone((template as { spec?: PodObject["spec"] }).spec ?? {});
    const pod: PodObject = { apiVersion: "v1", kind: "Pod", metadata: { ...metadata, namespace }, spec };
    const optIn = matchingEntry(namespace, namespaces.get(namespace) ?? {}, metadata.labels ?? {});
    return [{ name: metadata.name, namespace, object: pod, optIn }];
  });
}

/** The demo's configuration neither lists nor excludes namespaces. */
const BY_LABEL = { excluded: new Set<string>(), listed: new Set<string>() };

/** Applies the selectors of the MutatingWebhookConfiguration, as the API server does: one call per pod, or none. */
function matchingEntry(
  namespace: string,
  ofNamespace: Readonly<Record<string, string>>,
  ofPod: Readonly<Record<string, string>>,
): DemoPod["optIn"] {
  const own = ofPod[INJECT_KEY];
  if (own === "enabled") return "pod";
  const isOptedIn = isNamespaceOptedIn(namespace, ofNamespace[INJECT_KEY], BY_LABEL);
  return isOptedIn && own !== "disabled" ? "namespace" : undefined;
}

/**
 * Sends a pod through the webhook as the API server does (HTTPS, verified against Switchback's CA). Applies the patch
 * of the response.
 */
export async function admit(pod: DemoPod, endpoint: { readonly port: number; readonly ca: string }): Promise<Admitted> {
  const object = structuredClone(pod.object);
  if (pod.optIn === undefined) return { warnings: [], hostAliases: [] };
  const review = {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: randomUUID(),
      kind: { group: "", version: "v1", kind: "Pod" },
      resource: { group: "", version: "v1", resource: "pods" },
      operation: "CREATE",
      namespace: pod.namespace,
      name: pod.name,
      object,
      dryRun: false,
    },
  };
  const options = {
    host: "127.0.0.1",
    port: endpoint.port,
    path: `/mutate/${pod.optIn}`,
    method: "POST",
    ca: endpoint.ca,
    servername: "switchback-webhook.switchback-system.svc",
    agent: false,
    headers: { "content-type": "application/json" },
  };
  const { status, text } = await send((onResponse) => request(options, onResponse), JSON.stringify(review));
  if (status !== 200) throw new Error(`the webhook responded with ${status}: ${text}`);
  const { response } = JSON.parse(text);
  if (response.patch !== undefined) {
    const operations: Operation[] = JSON.parse(Buffer.from(response.patch, "base64").toString("utf8"));
    const failure = applyPatch(object, operations).find((error) => error !== null);
    if (failure) throw failure;
  }
  return { warnings: response.warnings ?? [], hostAliases: object.spec.hostAliases ?? [] };
}
