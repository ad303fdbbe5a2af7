import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import type { ProxyConfig } from "#lib/config/schema.ts";
import { frontName } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { FIELD_MANAGER, NO_VERSION } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { pause } from "#lib/kube/time.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { literalIPs } from "./targets/service-view.ts";

interface RawService {
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
/**
 * Fallback for a value that the API server refuses. Kubernetes 1.35 and newer support `PreferSameNode` and
 * `PreferSameZone` (KEP-3015).
 */
const OLDER_DISTRIBUTION = "PreferClose";

/** The part of a front Service that is kept in memory. */
interface Front {
  readonly uid: string | undefined;
  readonly resourceVersion: string | undefined;
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
 * addresses, and the last known ones are used until then.
 */
export class FrontServices {
  readonly #deps: FrontServicesDeps;
  readonly #seen = new Map<string, Front>();
  /** By target: the last observed addresses, or those that an earlier leader published. */
  readonly #known = new Map<string, readonly string[]>();
  /** The configured value. If the API server refuses or drops it, the fallback; if it refuses that too, undefined. */
  #distribution: TrafficDistribution;
  #watcher: Informer<Front> | undefined;

  constructor(deps: FrontServicesDeps) {
    this.#deps = deps;
    this.#distribution = deps.trafficDistribution;
  }

  start(): void {
    const { client, namespace, log, onChange } = this.#deps;
    this.#watcher = watchObjects<Front, RawService>({
      client,
      path: corePath("services", namespace),
      labelSelector: TARGET_KEY,
      project: viewFront,
      onChange: ({ before, after }) => {
        if (after !== undefined) this.#see(after);
        else if (before !== undefined) this.#seen.delete(before.target);
        onChange();
      },
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

  addressesOf(target: string): readonly string[] {
    return this.#known.get(target) ?? [];
  }

  get addresses(): ReadonlyMap<string, readonly string[]> {
    return this.#known;
  }

  /** Remembers addresses that pods may already hold. */
  remember(target: string, addresses: readonly string[]): void {
    if (addresses.length > 0 && !this.#known.has(target)) this.#known.set(target, addresses);
  }

  /**
   * Writes the front Service if it differs. Throws the API server's errors: with status 409 if the Service is not the
   * version that was seen last. Throws when `signal` aborts.
   */
  async ensure(target: PublishedTarget, signal: AbortSignal): Promise<void> {
    const addresses = this.addressesOf(target.name);
    if (this.#seen.get(target.name)?.managedSpec === this.#managedSpecOf(target)) return;
    if (await this.#applyWith(target, addresses, signal)) return;
    await this.#apply(target, []);
    const note = `the ClusterIP ${addresses.join(", ")} could not be reassigned; pods that hold it must be recreated`;
    this.#deps.log.error({ code: "front-address-lost", target: target.name }, note);
    this.#deps.notify("front-address-lost", note, frontName(target.name));
  }

  /**
   * Returns false if the API server keeps answering 422: the address belongs to another Service, or the Service range
   * has changed. A single refusal does not count, because the address of a deleted front becomes free only shortly
   * after we observe the deletion.
   */
  async #applyWith(target: PublishedTarget, addresses: readonly string[], signal: AbortSignal): Promise<boolean> {
    for (const waitMs of ADDRESS_WAITS_MS) {
      try {
        await this.#applyDistributed(target, addresses);
        return true;
      } catch (error) {
        if (statusOf(error) !== 422 || addresses.length === 0) throw error;
        this.#deps.log.warn({ code: "front-address-refused", target: target.name, waitMs }, describeError(error));
        await pause(waitMs, signal);
        signal.throwIfAborted();
      }
    }
    return false;
  }

  /**
   * Applies the front Service. If the API server refuses or drops the value of `trafficDistribution`, falls back to
   * the next one.
   */
  async #applyDistributed(target: PublishedTarget, addresses: readonly string[]): Promise<void> {
    const tried = this.#distribution;
    if (tried === undefined) return await this.#apply(target, addresses);
    try {
      await this.#apply(target, addresses);
      if (this.#seen.get(target.name)?.managedSpec !== this.#managedSpecOf(target))
        this.#giveUp(tried, "it was not kept");
    } catch (error) {
      if (statusOf(error) !== 422 || !describeError(error).includes(DISTRIBUTION_FIELD)) throw error;
      this.#giveUp(tried, describeError(error));
      await this.#applyDistributed(target, addresses);
    }
  }

  /** Does nothing if a concurrent write has already switched to the fallback. */
  #giveUp(tried: TrafficDistribution, why: string): void {
    if (this.#distribution !== tried) return;
    this.#distribution = tried === OLDER_DISTRIBUTION ? undefined : OLDER_DISTRIBUTION;
    const instead = this.#distribution ?? "none";
    this.#deps.log.warn({ code: "traffic-distribution-refused", tried, instead }, why);
  }

  /** Deletes the front Service of a target that is no longer used. */
  async remove(target: string): Promise<void> {
    const seen = this.#seen.get(target);
    if (seen !== undefined) {
      const { uid } = seen;
      try {
        await this.#deps.client.delete(this.#pathOf(target), uid === undefined ? {} : { preconditions: { uid } });
      } catch (error) {
        if (statusOf(error) !== 404) throw error;
      }
    }
    this.#seen.delete(target);
    this.#known.delete(target);
  }

  async stop(): Promise<void> {
    await this.#watcher?.stop();
  }

  #see(front: Front): void {
    if (front.target === "") return;
    this.#seen.set(front.target, front);
    if (front.clusterIPs.length > 0) this.#known.set(front.target, front.clusterIPs);
  }

  #managedSpecOf(target: PublishedTarget): string {
    return managedSpecOf(target.name, this.#deps.selector, frontPorts(target), this.#distribution);
  }

  async #apply(target: PublishedTarget, addresses: readonly string[]): Promise<void> {
    const seen = this.#seen.get(target.name);
    try {
      const written = viewFront(await this.#send(target, addresses, seen));
      // Once the watch has another version, it shows this write or a later one. The answer may be older than that.
      if (this.#seen.get(target.name) === seen) this.#see(written);
    } catch (error) {
      if (statusOf(error) !== 409 || seen !== undefined) throw error;
      // The Service exists, but the watch does not show it: somebody removed its label.
      const found = await this.#find(frontName(target.name));
      if (found === undefined) throw error;
      this.#see(viewFront(await this.#send(target, addresses, found.metadata)));
    }
  }

  async #find(name: string): Promise<RawService | undefined> {
    const { client, namespace } = this.#deps;
    const query = { fieldSelector: `metadata.name=${name}` };
    return (await client.list<RawService>(corePath("services", namespace), query)).items[0];
  }

  /** `seen` is the version that the write is based on. Undefined: the Service does not exist. */
  async #send(
    target: PublishedTarget,
    addresses: readonly string[],
    seen: { readonly uid?: string | undefined; readonly resourceVersion?: string | undefined } | undefined,
  ): Promise<RawService> {
    const { client, namespace, selector } = this.#deps;
    const { uid, resourceVersion = NO_VERSION } = seen ?? {};
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
      metadata: { name: frontName(target.name), namespace, labels, resourceVersion, ...(uid && { uid }) },
      spec: { type: "ClusterIP", ipFamilyPolicy: "PreferDualStack", selector, ports, ...distribution, ...fixed },
    };
    const path = this.#pathOf(target.name);
    return await client.apply<RawService>(path, object, { fieldManager: FIELD_MANAGER, force: true });
  }

  #pathOf(target: string): string {
    return corePath("services", this.#deps.namespace, frontName(target));
  }
}

function frontPorts({ ports }: PublishedTarget) {
  return ports.map(({ port, listenPort }) => ({ port, targetPort: listenPort }));
}

function viewFront({ metadata, spec }: RawService): Front {
  const label = metadata.labels?.[TARGET_KEY] ?? "";
  // A Service with our label and another name is not a front.
  const target = metadata.name === frontName(label) ? label : "";
  const ports = (spec?.ports ?? []).map(({ port, targetPort }) => ({ port, targetPort: targetPort ?? port }));
  const managedSpec = managedSpecOf(target, spec?.selector ?? {}, ports, spec?.trafficDistribution);
  const { uid, resourceVersion } = metadata;
  return { uid, resourceVersion, target, clusterIPs: literalIPs(spec), managedSpec };
}

function managedSpecOf(
  target: string,
  selector: Readonly<Record<string, string>>,
  ports: readonly object[],
  distribution: string | undefined,
): string {
  return JSON.stringify([target, Object.entries(selector).sort(), ports, distribution ?? null]);
}
