import { hasCode, SwitchbackError, statusOf } from "../errors/errors.ts";
import type { CallOptions, KubeClient } from "./client.ts";
import { resourcePath } from "./paths.ts";
import type { ObjectMeta } from "./types.ts";

/** coordination.k8s.io/v1 Lease. Times are RFC 3339 with six digits of a second. */
export interface Lease {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

/** One Lease in the API server, written by compare-and-swap only. */
export interface LeaseStore {
  /** The Lease as it is; one that does not exist is made, held by nobody. */
  read(options: CallOptions): Promise<Lease>;
  /** Writes over exactly the Lease that `basis` was read as. `undefined`: it has changed since, or is gone. */
  swap(basis: Lease, spec: Lease["spec"], options: CallOptions): Promise<Lease | undefined>;
}

export function createLeaseStore(client: KubeClient, namespace: string, name: string): LeaseStore {
  const path = resourcePath({
    group: "coordination.k8s.io",
    version: "v1",
    namespace,
    resource: "leases",
    name,
  });
  const head = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name, namespace } };

  /**
   * By server-side apply, not POST: RBAC can then bind the right to create to this one name. The applied Lease is empty, so that an
   * apply that comes second, after another has taken the Lease, takes nothing away from it.
   */
  const create = (options: CallOptions) =>
    client.apply<Lease>(path, { ...head, spec: {} }, { ...options, fieldManager: "switchback-election" });

  return {
    async read(options) {
      try {
        return await client.get<Lease>(path, {}, options);
      } catch (error) {
        if (statusOf(error) === 404) return create(options);
        throw error;
      }
    },
    async swap(basis, spec, options) {
      const { resourceVersion, uid } = basis.metadata;
      if (!resourceVersion) throw new SwitchbackError("data-corrupt", `GET ${path}: a Lease without resourceVersion`);
      // The uid too: a Lease deleted and made anew is another one.
      const metadata = { ...basis.metadata, resourceVersion, ...(uid === undefined ? {} : { uid }) };
      try {
        return await client.replace<Lease>(path, { ...head, metadata, spec }, options);
      } catch (error) {
        if (hasCode(error, "kube-status") && (error.status === 409 || error.status === 404)) return undefined;
        throw error;
      }
    },
  };
}

/** A Lease's time: the API server wants six digits of a second and refuses three. `epochMs` is wall-clock time. */
export function microTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace("Z", "000Z");
}
