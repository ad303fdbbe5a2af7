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
      onChange: ({ after }) => {
        if (after !== undefined && after.clusterIPs.length > 0) this.#known.set(after.target, after.clusterIPs);
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

  /** The targets of the front Services that exist. */
  get existing(): readonly string[] {
    return [...(this.#watcher?.objects().values() ?? [])].map(({ target }) => target);
  }

  /** Remembers addresses that pods may already hold. */
  remember(target: string, addresses: readonly string[]): void {
    if (addresses.length > 0 && !this.#known.has(target)) this.#known.set(target, addresses);
  }

  /**
   * Writes the front Service if it differs. Throws the API server's errors: with status 409 if it is not the Service
   * that was seen last. Throws when `signal` aborts. Before `start`, nothing is written.
   */
  async ensure(target: PublishedTarget, signal: AbortSignal): Promise<void> {
    if (this.#seen(target.name)?.managedSpec === this.#managedSpecOf(target)) return;
    const addresses = this.addressesOf(target.name);
    if (await this.#applyWith(target, addresses, signal)) return;
    await this.#apply(target, []);
    const note = `the ClusterIP ${addresses.join(", ")} could not be reassigned; pods that hold it must be recreated`;
    this.#deps.log.error({ code: "front-address-lost", target: target.name }, note);
    this.#deps.notify("front-address-lost", note, frontName(target.name));
  }

  /**
   * Returns false if the API server keeps answering 422: the address belongs to another Service, or the Service range
   * has changed. A single refusal does not count, because the address of a deleted front becomes free only shortly
   * after we observe the deletion. A value of `trafficDistribution` that the API server refuses or drops is left out.
   */
  async #applyWith(target: PublishedTarget, addresses: readonly string[], signal: AbortSignal): Promise<boolean> {
    for (const waitMs of ADDRESS_WAITS_MS) {
      const tried = this.#distribution;
      try {
        const written = await this.#apply(target, addresses);
        if (written?.managedSpec !== this.#managedSpecOf(target)) this.#giveUp(tried, "it was not kept");
        return true;
      } catch (error) {
        const why = describeError(error);
        if (statusOf(error) !== 422) throw error;
        if (tried !== undefined && why.includes(DISTRIBUTION_FIELD)) {
          this.#giveUp(tried, why);
          continue;
        }
        if (addresses.length === 0) throw error;
        this.#deps.log.warn({ code: "front-address-refused", target: target.name, waitMs }, why);
        await pause(waitMs, signal);
        signal.throwIfAborted();
      }
    }
    return false;
  }

  /** Does nothing without a value, or if a concurrent write has already switched to the fallback. */
  #giveUp(tried: TrafficDistribution, why: string): void {
    if (tried === undefined || this.#distribution !== tried) return;
    this.#distribution = tried === OLDER_DISTRIBUTION ? undefined : OLDER_DISTRIBUTION;
    const instead = this.#distribution ?? "none";
    this.#deps.log.warn({ code: "traffic-distribution-refused", tried, instead }, why);
  }

  /** Deletes the front Service of a target that is no longer used. */
  async remove(target: string): Promise<void> {
    const { uid } = this.#seen(target) ?? {};
    await this.#watcher?.request(this.#keyOf(target), async () => {
      try {
        if (uid !== undefined) await this.#deps.client.delete(this.#pathOf(target), { preconditions: { uid } });
      } catch (error) {
        if (statusOf(error) !== 404) throw error;
      }
      return undefined;
    });
    this.#known.delete(target);
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
      client.apply<RawService>(this.#pathOf(target.name), object, options),
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
function viewFront({ metadata, spec }: RawService): Front | undefined {
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
