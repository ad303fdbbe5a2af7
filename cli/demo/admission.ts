import { applyPatch } from "rfc6902";
import { INJECT_KEY } from "#hostmap/metadata-keys.ts";
import { isNamespaceOptedIn } from "#hostmap/opt-in.ts";
import { DEFAULT_MAX_NAMES } from "#hostmap/pod-selection.ts";
import type { HostAlias, PublishedMap } from "#hostmap/types.ts";
import { createInjectionCache } from "#webhook/injection-cache.ts";
import { decideInjection, type OptIn } from "#webhook/injection-decision.ts";
import type { KubeObject } from "./objects.ts";

/** A pod of the directory, or of a workload in it, after the webhook. */
export interface AdmittedPod {
  readonly name: string;
  readonly namespace: string;
  /** The webhook entry whose selectors match; undefined if none does. */
  readonly optIn: OptIn | undefined;
  readonly warnings: readonly string[];
  readonly hostAliases: readonly HostAlias[];
}

/** An object with a pod: a workload with its template, or a pod itself. */
interface PodSource extends Pick<KubeObject, "metadata"> {
  readonly spec?: { readonly template?: Partial<PodSource>; hostAliases?: HostAlias[] };
}

/** The pods of a directory, as the webhook changes them: its single pods, and one pod per workload template. */
export function admitAll(objects: readonly KubeObject[], map: PublishedMap): AdmittedPod[] {
  const cache = createInjectionCache(map, DEFAULT_MAX_NAMES);
  const namespaces = new Map(
    objects.flatMap(({ kind, metadata }) => (kind === "Namespace" ? [[metadata.name, metadata.labels ?? {}]] : [])),
  );
  return objects.flatMap((raw): AdmittedPod[] => {
    const source: Partial<PodSource> | undefined = raw.kind === "Pod" ? raw : (raw as PodSource).spec?.template;
    if (source === undefined) return [];
    const { name, namespace = "default" } = raw.metadata;
    const metadata = { ...source.metadata, name, namespace };
    const object = { apiVersion: "v1", kind: "Pod", metadata, spec: structuredClone(source.spec ?? {}) };
    const optIn = matchingEntry(namespace, namespaces.get(namespace) ?? {}, metadata.labels ?? {});
    if (optIn === undefined) return [{ name, namespace, optIn, warnings: [], hostAliases: [] }];
    const kind = { group: "", kind: "Pod" };
    const request = { uid: name, kind, operation: "CREATE", namespace, object: structuredClone(object) };
    const { patch = [], warnings } = decideInjection(request, optIn, cache);
    const failure = applyPatch(object, [...patch]).find((error) => error !== null);
    if (failure) throw failure;
    const hostAliases = object.spec.hostAliases ?? [];
    return [{ name, namespace, optIn, warnings: warnings.map(({ text }) => text), hostAliases }];
  });
}

/** The demo's configuration neither lists nor excludes namespaces. */
const BY_LABEL = { excluded: new Set<string>(), listed: new Set<string>() };

/** Applies the selectors of the MutatingWebhookConfiguration, as the API server does: one call per pod, or none. */
function matchingEntry(
  namespace: string,
  ofNamespace: Readonly<Record<string, string>>,
  ofPod: Readonly<Record<string, string>>,
): OptIn | undefined {
  const own = ofPod[INJECT_KEY];
  if (own === "enabled") return "pod";
  const isOptedIn = isNamespaceOptedIn(namespace, ofNamespace[INJECT_KEY], BY_LABEL);
  return isOptedIn && own !== "disabled" ? "namespace" : undefined;
}
