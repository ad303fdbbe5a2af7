import { publishedIn } from "../published.ts";
import { NAMESPACE, type System } from "./system.ts";

// What was written, in order. A watch from an earlier version replays it from the API server's cache, which holds the
// last 75 s and more. If the API server was restored, the earlier versions are read from etcd, one after the other.
// Nothing has to run meanwhile, and nothing is missed.

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

/** The map after one write. */
export interface Edition {
  readonly hosts: ReadonlyMap<string, readonly string[]>;
}

/** The objects of a path, and their version. */
async function list<T = RawObject>(system: System, path: string): Promise<{ version: string; items: T[] }> {
  const { body } = await system.cluster.call({ path });
  const { metadata, items } = body as { metadata: { resourceVersion: string }; items: T[] };
  return { version: metadata.resourceVersion, items };
}

/** The objects of a path at one version, which the API server reads from etcd. */
async function listAt(system: System, path: string, version: string): Promise<{ version: string; items: RawObject[] }> {
  const { items } = await list(system, `${path}?resourceVersion=${version}&resourceVersionMatch=Exact`);
  return { version, items };
}

/** The events of a path from a version on, or `gone` if the API server's cache does not reach back so far. */
async function replay<T = RawObject>(system: System, path: string, from: string): Promise<WatchEvent<T>[] | "gone"> {
  const query = `watch=true&resourceVersion=${from}&timeoutSeconds=1`;
  const text = await system.kubectl("get", "--raw", `${path}?${query}`);
  const events = text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as WatchEvent<T>);
  const error = events.find(({ type }) => type === "ERROR");
  return error === undefined ? events : "gone";
}

/**
 * Starts to record the map. The returned function gives it as it was at first, and after every write to a ConfigMap of
 * Switchback's namespace since then.
 */
export async function recordMap(system: System): Promise<() => Promise<Edition[]>> {
  const first = await list(system, CONFIG_MAPS);
  return async () => {
    const editions: Edition[] = [];
    for (let at = first; ; at = await listAt(system, CONFIG_MAPS, String(Number(at.version) + 1))) {
      const objects = new Map(at.items.map((item) => [item.metadata.name, item]));
      editions.push(editionOf(objects));
      const events = await replay(system, CONFIG_MAPS, at.version);
      if (events === "gone") continue;
      for (const { type, object } of events) {
        if (type === "DELETED") objects.delete(object.metadata.name);
        else objects.set(object.metadata.name, object);
        editions.push(editionOf(objects));
      }
      return editions;
    }
  };
}

function editionOf(objects: ReadonlyMap<string, RawObject>): Edition {
  return { hosts: publishedIn([...objects.values()]).hosts };
}

/** Starts to record the controllers' Lease. The returned function gives its contents since then, in order. */
export async function recordLease(system: System): Promise<() => Promise<LeaseSpec[]>> {
  const { version, items } = await list(system, LEASES);
  return async () => {
    const events = await replay(system, LEASES, version);
    if (events === "gone") throw new Error(`the history since ${version} is gone`);
    return [...items, ...events.map(({ object }) => object)].map(({ spec }) => spec ?? {});
  };
}
