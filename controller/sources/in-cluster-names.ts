import { show } from "#hostmap/hostnames.ts";
import { type ServiceName, serviceNameOf } from "#hostmap/service-names.ts";
import type { Reason } from "#hostmap/types.ts";
import { isPublicTld } from "#lib/config/public-tlds.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { informerState } from "./followed-kind.ts";
import type { Namespaces } from "./namespaces.ts";
import type { SourceState } from "./types.ts";

interface InClusterNamesDeps {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly namespaces: Pick<Namespaces, "of" | "follow">;
  readonly log: Logger;
  /** Whether the controller may list Services, which it may only with discovery. If not, only namespaces count. */
  readonly mayListServices: boolean;
  /** Called when refused names may be free: a namespace or Service was deleted, or the Services are known. */
  readonly onFreed: () => void;
}

/** Code of the reason for a name that is, or would be, the name of a Service. */
const IN_CLUSTER_NAME = "in-cluster-name";
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
  #services: Informer<true> | undefined;
  #stopped = false;

  constructor(deps: InClusterNamesDeps) {
    this.#deps = deps;
    this.#freed = new Reconciler({
      reconcile: () => {
        deps.onFreed();
        return undefined;
      },
    });
    deps.namespaces.follow((_name, _before, after) => {
      if (after === undefined) this.#freed.enqueue(SETTLE_MS);
    });
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

  state(): SourceState[] {
    return this.#services === undefined ? [] : [informerState("service names", this.#services)];
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all([this.#freed.stop(), this.#services?.stop()]);
  }

  #reasonOfService(hostname: string, { namespace, name }: ServiceName): Reason | undefined {
    if (!this.#deps.mayListServices || this.#stopped) return undefined;
    this.#services ??= this.#watchServices();
    if (!this.#services.state.synced) {
      const text = `${show(hostname)} waits until it is known whether the namespace ${namespace} has a Service ${name}`;
      return { code: "sources-not-read", text };
    }
    if (!this.#services.objects().has(`${namespace}/${name}`)) return undefined;
    return { code: IN_CLUSTER_NAME, text: `${show(hostname)} is the Service ${name} of the namespace ${namespace}` };
  }

  #watchServices(): Informer<true> {
    return watchObjects<true>({
      client: this.#deps.client,
      path: corePath("services"),
      metadataOnly: true,
      project: () => true,
      onChange: ({ after }) => {
        if (after === undefined) this.#freed.enqueue(SETTLE_MS);
      },
      onSynced: () => this.#freed.enqueue(),
      log: this.#deps.log,
    });
  }
}
