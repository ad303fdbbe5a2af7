import { show } from "#hostmap/hostnames.ts";
import { type ServiceName, serviceNameOf } from "#hostmap/service-names.ts";
import type { Reason } from "#hostmap/types.ts";
import { isPublicTld } from "#lib/config/public-tlds.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import type { Namespaces } from "./namespaces.ts";

/** The Services of the cluster. They have been listed before any claim is decided. */
export interface ServiceKeys {
  hasService(key: string): boolean;
  followDeleted(onDeleted: () => void): void;
}

interface InClusterNamesDeps {
  readonly namespaces: Pick<Namespaces, "of" | "follow">;
  /** Without discovery, no Service is read, so that only namespaces count. */
  readonly services: ServiceKeys;
}

/** Code of the reason for a name that is, or would be, the name of a Service. */
const IN_CLUSTER_NAME = "in-cluster-name";
/** Combines simultaneous changes, because each change evaluates all refused claims again. */
const SETTLE_MS = 20;

/**
 * Knows which names resolve to Services of this cluster in a pod. These are the names of existing Services, and all
 * names below a namespace that is not a public top-level domain. If the namespace is a public top-level domain, such
 * as `dev`, then `shop.dev` is an ordinary name unless `dev` has a Service `shop`.
 */
export class InClusterNames {
  readonly #deps: InClusterNamesDeps;
  readonly #freed: Reconciler;
  #onFreed: () => void = () => {};

  constructor(deps: InClusterNamesDeps) {
    this.#deps = deps;
    this.#freed = new Reconciler({
      reconcile: () => {
        this.#onFreed();
        return undefined;
      },
    });
    deps.namespaces.follow((_name, _before, after) => {
      if (after === undefined) this.#freed.enqueue(SETTLE_MS);
    });
    deps.services.followDeleted(() => this.#freed.enqueue(SETTLE_MS));
  }

  /** `onFreed` is called when refused names may be free: a namespace or Service was deleted. */
  follow(onFreed: () => void): void {
    this.#onFreed = onFreed;
  }

  /** Why a name (in lower case) is, or may be, a name of a Service of this cluster; undefined: it is not. */
  reasonOf(hostname: string): Reason | undefined {
    const service = serviceNameOf(hostname);
    if (service === undefined || this.#deps.namespaces.of(service.namespace) === undefined) return undefined;
    if (isPublicTld(service.namespace)) return this.#reasonOfService(hostname, service);
    const text =
      `${show(hostname)} would be a Service of the namespace ${service.namespace}, which is no public top-level ` +
      "domain";
    return { code: IN_CLUSTER_NAME, text };
  }

  async stop(): Promise<void> {
    await this.#freed.stop();
  }

  #reasonOfService(hostname: string, { namespace, name }: ServiceName): Reason | undefined {
    if (!this.#deps.services.hasService(`${namespace}/${name}`)) return undefined;
    return { code: IN_CLUSTER_NAME, text: `${show(hostname)} is the Service ${name} of the namespace ${namespace}` };
  }
}
