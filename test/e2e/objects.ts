import type { Cluster } from "../cluster/cluster.ts";
import { SYSTEM } from "./switchback.ts";

interface Listed {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: Readonly<Record<string, unknown>> & { readonly name: string; readonly namespace?: string };
  readonly spec?: { readonly parentRef?: { readonly namespace?: string } };
  readonly status?: unknown;
}

/** Kinds whose objects appear, disappear and change by themselves, or a moment after a user's change. */
const RESTLESS = /^(?:events|leases|endpoints|endpointslices)\b|\bmetrics\.k8s\.io$/;

/**
 * Every object of the cluster that is not Switchback's, as JSON, by kind, namespace and name. The result has neither
 * the objects' status nor the API server's own fields about writes, and no objects that are being deleted. `podsToo`
 * is false if pods may have been replaced meanwhile.
 */
export async function othersObjects(cluster: Cluster, { podsToo = true } = {}): Promise<Record<string, string>> {
  const kinds = (await cluster.kubectl("api-resources", "--verbs=list", "-o", "name")).trim().split("\n");
  const listed = kinds.filter((kind) => !RESTLESS.test(kind) && (podsToo || kind !== "pods"));
  const { items } = await cluster.get<{ items: Listed[] }>(listed.join(","), "-A");
  return Object.fromEntries(
    items.filter((object) => !isOurs(object) && !object.metadata.deletionTimestamp).map(recordOf),
  );
}

function isOurs({ metadata, spec }: Listed): boolean {
  const owner = spec?.parentRef?.namespace;
  return owner === SYSTEM || [metadata.name, metadata.namespace].some((part) => part?.includes("switchback"));
}

function recordOf(object: Listed): [string, string] {
  const { metadata, status: _status, ...rest } = object;
  const { resourceVersion: _version, managedFields: _fields, ...kept } = metadata;
  const key = `${object.apiVersion} ${object.kind} ${metadata.namespace ?? ""}/${metadata.name}`;
  return [key, JSON.stringify({ ...rest, metadata: kept })];
}
