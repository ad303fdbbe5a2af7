import { hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "./client.ts";
import { resourcePath } from "./paths.ts";
import type { CallOptions, ObjectMeta } from "./types.ts";

/** A coordination.k8s.io/v1 Lease. Times are RFC 3339 with microseconds. */
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

/** A Lease in the API server, written only by compare-and-swap. */
export interface LeaseStore {
  /** Reads the Lease. Creates it without a holder if it does not exist. */
  read(options: CallOptions): Promise<Lease>;
  /**
   * Updates the Lease if it is unchanged since `basis` was read. Returns undefined if it has changed or was deleted.
   */
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
   * Uses server-side apply instead of POST, so that RBAC can restrict creation to this name. The applied Lease has no
   * spec fields. So an apply after another replica has acquired the Lease does not change it.
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
      const { metadata } = basis;
      if (!metadata.resourceVersion)
        throw new SwitchbackError("data-corrupt", `GET ${path}: a Lease without resourceVersion`);
      try {
        // The metadata includes the uid: a recreated Lease is a different object.
        return await client.replace<Lease>(path, { ...head, metadata, spec }, options);
      } catch (error) {
        if (hasCode(error, "kube-status") && (error.status === 409 || error.status === 404)) return undefined;
        throw error;
      }
    },
  };
}

/**
 * Formats a MicroTime. The API server requires six fractional digits and rejects three. `epochMs` is wall-clock time.
 */
export function microTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace("Z", "000Z");
}
