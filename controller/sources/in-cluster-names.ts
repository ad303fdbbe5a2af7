import { show } from "#hostmap/hostnames.ts";
import { type ServiceName, serviceNameOf } from "#hostmap/service-names.ts";
import type { Reason } from "#hostmap/types.ts";
import { isPublicTld } from "#lib/config/public-tlds.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { informerState } from "./ingress-hosts.ts";
import type { SourceState } from "./types.ts";

interface InClusterNamesDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly log: Logger;
  /** Whether the controller may list Services, which it may only with discovery. If not, only namespaces count. */
  readonly mayListServices: boolean;
}

/** Code of the reason for a name that is, or would be, the name of a Service. */
export const IN_CLUSTER_NAME = "in-cluster-name";
/** Combines simultaneous changes, because each change evaluates all refused claims again. */
const SETTLE_MS = 20;

/**
 * Knows which names resolve to Services of this cluster in a pod. These are the names of existing Services, and all
 * names below a namespace that is not a public top-level domain. If the namespace is a public top-level domain, such
 * as `dev`, then `shop.dev` is an ordinary name unless `dev` has a Service `shop`. Keeps only names and namespaces.
 * Lists the Services when the first name needs them.
 */
export class InClusterNames {
  readonly #deps: InClusterNamesDeps;
  readonly #freed: Reconciler;
  #namespaces: Informer<true> | undefined;
  #services: Informer<true> | undefined;
  #onFreed: () => void = () => {};
  #stopped = false;

  constructor(deps: InClusterNamesDeps) {
    this.#deps = deps;
    this.#freed = new Reconciler({
      reconcile: () => {
        this.#onFreed();
        return undefined;
      },
    });
  }

  /**
   * `onFreed` is called when refused names may be free: a namespace or Service was deleted, or the Services are
   * known.
   */
  follow(onFreed: () => void): void {
    this.#onFreed = onFreed;
  }

  /** `onSynced` is called once, when all namespaces are known. Before that, no decision about a name is possible. */
  start(onSynced: () => void): void {
    this.#namespaces = this.#watch("namespaces", onSynced);
  }

  /** Why a name (in lower case) is, or may be, a name of a Service of this cluster; undefined: it is not. */
  reasonOf(hostname: string): Reason | undefined {
    const service = serviceNameOf(hostname);
    if (service === undefined || !this.#namespaces?.objects().has(service.namespace)) return undefined;
    if (isPublicTld(service.namespace)) return this.#reasonOfService(hostname, service);
    const text =
      `${show(hostname)} would be a Service of the namespace ${service.namespace}, which is no public top-level ` +
      "domain";
    return { code: IN_CLUSTER_NAME, text };
  }

  state(): SourceState[] {
    const services = this.#services === undefined ? [] : [informerState("service names", this.#services)];
    return [informerState("namespace names", this.#namespaces), ...services];
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all([this.#freed.stop(), this.#namespaces?.stop(), this.#services?.stop()]);
  }

  #reasonOfService(hostname: string, { namespace, name }: ServiceName): Reason | undefined {
    if (!this.#deps.mayListServices || this.#stopped) return undefined;
    this.#services ??= this.#watch("services", () => this.#freed.enqueue());
    if (!this.#services.state.synced) {
      const text = `${show(hostname)} waits until it is known whether the namespace ${namespace} has a Service ${name}`;
      return { code: "services-unknown", text };
    }
    if (!this.#services.objects().has(`${namespace}/${name}`)) return undefined;
    return { code: IN_CLUSTER_NAME, text: `${show(hostname)} is the Service ${name} of the namespace ${namespace}` };
  }

  #watch(resource: "namespaces" | "services", onSynced: () => void): Informer<true> {
    return watchObjects<true>({
      client: this.#deps.client,
      path: corePath(resource),
      metadataOnly: true,
      project: () => true,
      onChange: ({ after }) => {
        if (after === undefined) this.#freed.enqueue(SETTLE_MS);
      },
      onSynced,
      log: this.#deps.log,
    });
  }
}
