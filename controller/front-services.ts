import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import type { ProxyConfig } from "#lib/config/schema.ts";
import { frontName } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { FIELD_MANAGER } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { pause } from "#lib/kube/time.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { literalIPs } from "./targets/service-view.ts";

interface RawFront {
  readonly metadata: ObjectMeta & { readonly name: string };
  readonly spec?: {
    readonly clusterIP?: string;
    readonly clusterIPs?: readonly string[];
    readonly selector?: Readonly<Record<string, string>>;
    readonly ports?: ReadonlyArray<{ readonly port: number; readonly targetPort?: number | string }>;
    readonly trafficDistribution?: string;
  };
}

type TrafficDistribution = ProxyConfig["trafficDistribution"];
const DISTRIBUTION_FIELD = "trafficDistribution";

/** The part of a front Service that is kept in memory. */
interface Front {
  readonly uid: string | undefined;
  readonly target: string;
  readonly clusterIPs: readonly string[];
  /** The fields that we manage, as one string. If it is equal, no write is needed. */
  readonly managedSpec: string;
}

interface FrontServicesDeps {
  readonly client: KubeClient;
  /** Our own namespace. */
  readonly namespace: string;
  /** Labels of the proxy pods. */
  readonly selector: Readonly<Record<string, string>>;
  /** Which proxies a client's connections prefer; undefined: no preference. */
  readonly trafficDistribution?: TrafficDistribution;
  readonly log: Logger;
  /** Records an Event when an address that pods hold is lost. */
  readonly notify: (code: string, note: string, service: string) => void;
  /** Called when a front Service was added, changed or deleted. */
  readonly onChange: () => void;
}

/** Delays between requests for an address that pods hold: 3 s in total. */
const ADDRESS_WAITS_MS = [100, 200, 400, 800, 1_500] as const;

/**
 * The front Services, which give each relayed target its own address: at layer 4 only the address distinguishes
 * targets. Running pods hold these ClusterIPs in their hosts files. So a deleted front is recreated with the same
 * addresses.
 */
export class FrontServices {
  readonly #deps: FrontServicesDeps;
  /** Undefined also once the API server does not know the value. Kubernetes knows them from 1.31 and 1.35 on. */
  #distribution: TrafficDistribution;
  #watcher: Informer<Front> | undefined;

  constructor(deps: FrontServicesDeps) {
    this.#deps = deps;
    this.#distribution = deps.trafficDistribution;
  }

  start(): void {
    const { client, namespace, log, onChange } = this.#deps;
    this.#watcher = watchObjects<Front, RawFront>({
      client,
      path: corePath("services", namespace),
      labelSelector: TARGET_KEY,
      project: viewFront,
      onChange,
      onSynced: onChange,
      log,
    });
  }

  get synced(): boolean {
    return this.#watcher?.state.synced ?? false;
  }

  get inactiveMs(): number {
    return this.#watcher?.state.inactiveMs ?? 0;
  }

  /** The addresses of the front Services that exist, by target. */
  get addresses(): ReadonlyMap<string, readonly string[]> {
    return new Map(
      [...(this.#watcher?.objects().values() ?? [])].map(({ target, clusterIPs }) => [target, clusterIPs]),
    );
  }

  /**
   * Writes the front Service if it differs. `held` are the addresses that pods hold. Another Service may have them, or
   * the Service range has changed: if the API server keeps answering 422, the front gets new ones. A single refusal
   * does not count, because the address of a deleted front becomes free only shortly after we observe the deletion.
   * Throws other errors of the API server: with status 409 if it is not the Service that was seen last. Throws when
   * `signal` aborts. Before `start`, nothing is written.
   */
  async ensure(target: PublishedTarget, held: readonly string[], signal: AbortSignal): Promise<void> {
    if (this.#seen(target.name)?.managedSpec === this.#managedSpecOf(target)) return;
    for (const waitMs of ADDRESS_WAITS_MS) {
      if (await this.#isTaken(target, held)) return;
      await pause(waitMs, signal);
      signal.throwIfAborted();
    }
    await this.#isTaken(target, []);
    const note = `The ClusterIP ${held.join(", ")} could not be reassigned; pods that hold it must be recreated`;
    this.#deps.log.error({ code: "front-address-lost", target: target.name }, note);
    this.#deps.notify("front-address-lost", note, frontName(target.name));
  }

  /** Applies the front Service. Returns false if the API server refuses the addresses. */
  async #isTaken(target: PublishedTarget, addresses: readonly string[]): Promise<boolean> {
    try {
      const written = await this.#apply(target, addresses);
      if (written?.managedSpec !== this.#managedSpecOf(target)) this.#leaveOutDistribution("it was not kept");
      return true;
    } catch (error) {
      const why = describeError(error);
      if (statusOf(error) !== 422) throw error;
      if (why.includes(DISTRIBUTION_FIELD)) {
        this.#leaveOutDistribution(why);
        return await this.#isTaken(target, addresses);
      }
      if (addresses.length === 0) throw error;
      this.#deps.log.debug({ target: target.name }, `its ClusterIP is not free yet: ${why}`);
      return false;
    }
  }

  /** A value of `trafficDistribution` that the API server refuses or drops is left out. */
  #leaveOutDistribution(why: string): void {
    // A concurrent write may have left it out already.
    if (this.#distribution === undefined) return;
    this.#deps.log.warn({ code: "traffic-distribution-refused", tried: this.#distribution }, why);
    this.#distribution = undefined;
  }

  /** Deletes the front Service of a target that is no longer used. */
  async remove(target: string): Promise<void> {
    const { uid } = this.#seen(target) ?? {};
    if (uid === undefined) return;
    await this.#watcher?.request(this.#keyOf(target), async () => {
      try {
        await this.#deps.client.delete(this.#pathOf(target), { preconditions: { uid } });
      } catch (error) {
        if (statusOf(error) !== 404) throw error;
      }
      return undefined;
    });
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  /** The front Service of a target, as the watch or the answer of our last write showed it. */
  #seen(target: string): Front | undefined {
    return this.#watcher?.objects().get(this.#keyOf(target));
  }

  #keyOf(target: string): string {
    return `${this.#deps.namespace}/${frontName(target)}`;
  }

  #managedSpecOf(target: PublishedTarget): string {
    return managedSpecOf(target.name, this.#deps.selector, frontPorts(target), this.#distribution);
  }

  /**
   * Applies the front Service, whether it exists or not, and returns it. Also gives it back a label that somebody
   * removed, without which the watch does not show it.
   */
  async #apply(target: PublishedTarget, addresses: readonly string[]): Promise<Front | undefined> {
    const { client, namespace, selector } = this.#deps;
    const { uid } = this.#seen(target.name) ?? {};
    const labels = {
      "app.kubernetes.io/name": "switchback",
      "app.kubernetes.io/component": "front",
      [TARGET_KEY]: target.name,
    };
    const fixed = addresses.length === 0 ? {} : { clusterIP: addresses[0], clusterIPs: addresses };
    const ports = frontPorts(target).map((entry) => ({ name: `tcp-${entry.port}`, protocol: "TCP", ...entry }));
    const distribution = this.#distribution && { [DISTRIBUTION_FIELD]: this.#distribution };
    const object = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: frontName(target.name), namespace, labels, ...(uid && { uid }) },
      spec: { type: "ClusterIP", ipFamilyPolicy: "PreferDualStack", selector, ports, ...distribution, ...fixed },
    };
    const options = { fieldManager: FIELD_MANAGER, force: true };
    return await this.#watcher?.request(this.#keyOf(target.name), () =>
      client.apply<RawFront>(this.#pathOf(target.name), object, options),
    );
  }

  #pathOf(target: string): string {
    return corePath("services", this.#deps.namespace, frontName(target));
  }
}

function frontPorts({ ports }: PublishedTarget) {
  return ports.map(({ port, listenPort }) => ({ port, targetPort: listenPort }));
}

/** Undefined: a Service with our label and another name is not a front. */
function viewFront({ metadata, spec }: RawFront): Front | undefined {
  const target = metadata.labels?.[TARGET_KEY];
  if (!target || metadata.name !== frontName(target)) return undefined;
  const ports = (spec?.ports ?? []).map(({ port, targetPort }) => ({ port, targetPort: targetPort ?? port }));
  const managedSpec = managedSpecOf(target, spec?.selector ?? {}, ports, spec?.trafficDistribution);
  return { uid: metadata.uid, target, clusterIPs: literalIPs(spec), managedSpec };
}

function managedSpecOf(
  target: string,
  selector: Readonly<Record<string, string>>,
  ports: readonly object[],
  distribution: string | undefined,
): string {
  return JSON.stringify([target, Object.entries(selector).sort(), ports, distribution ?? null]);
}
