import { publishedIn } from "../published.ts";
import { NAMESPACE, type System } from "./system.ts";

// What was written, in order. A watch from an earlier version replays it from the API server's cache, which holds the
// last 75 s and more. Nothing has to run meanwhile, and nothing is missed.

const CONFIG_MAPS = `/api/v1/namespaces/${NAMESPACE}/configmaps`;
const LEASES = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases`;

interface RawObject {
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion: string;
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: LeaseSpec;
}

interface WatchEvent<T> {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "ERROR";
  readonly object: T;
}

export interface LeaseSpec {
  readonly holderIdentity?: string;
  readonly acquireTime?: string;
  readonly renewTime?: string;
  readonly leaseTransitions?: number;
}

/** The objects of a path, and their version. */
async function list<T = RawObject>(system: System, path: string): Promise<{ version: string; items: T[] }> {
  const { body } = await system.cluster.call({ path });
  const { metadata, items } = body as { metadata: { resourceVersion: string }; items: T[] };
  return { version: metadata.resourceVersion, items };
}

/** The events of a path from a version on. Throws if the API server's cache does not reach back so far. */
async function replay<T = RawObject>(system: System, path: string, from: string): Promise<WatchEvent<T>[]> {
  const query = `watch=true&resourceVersion=${from}&timeoutSeconds=1`;
  const text = await system.kubectl("get", "--raw", `${path}?${query}`);
  const lines = text.split("\n").filter((line) => line !== "");
  const events = lines.map((line) => JSON.parse(line) as WatchEvent<T>);
  if (events.some(({ type }) => type === "ERROR")) throw new Error(`the history of ${path} since ${from} is gone`);
  return events;
}

/**
 * Starts to record the map. The returned function gives the addresses by name as they were at first, and after every
 * write to a ConfigMap of Switchback's namespace since then.
 */
export async function recordMap(system: System): Promise<() => Promise<ReadonlyMap<string, readonly string[]>[]>> {
  const { version, items } = await list(system, CONFIG_MAPS);
  return async () => {
    const objects = new Map(items.map((item) => [item.metadata.name, item]));
    const editions = [publishedIn(items).hosts];
    for (const { type, object } of await replay(system, CONFIG_MAPS, version)) {
      if (type === "DELETED") objects.delete(object.metadata.name);
      else objects.set(object.metadata.name, object);
      editions.push(publishedIn([...objects.values()]).hosts);
    }
    return editions;
  };
}

/** Starts to record the controllers' Lease. The returned function gives its contents since then, in order. */
export async function recordLease(system: System): Promise<() => Promise<LeaseSpec[]>> {
  const { version, items } = await list(system, LEASES);
  return async () => {
    const events = await replay(system, LEASES, version);
    return [...items, ...events.map(({ object }) => object)].map(({ spec }) => spec ?? {});
  };
}
