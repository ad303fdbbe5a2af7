import { isIP } from "node:net";
import type { TargetConfig } from "../config/schema.ts";
import { describeError, statusOf } from "../errors/errors.ts";
import { TARGET_KEY } from "../hosts/keys.ts";
import type { TargetAddress } from "../hosts/types.ts";
import type { KubeClient } from "../kube/client.ts";
import { type Watcher, watchObjects } from "../kube/watch.ts";
import type { Logger } from "../observe/log.ts";
import { frontName, isRelayed, listenersOf } from "../targets/listeners.ts";
import type { Addresses } from "./addresses.ts";

interface RawService {
  readonly metadata: { readonly name: string };
  readonly spec?: { readonly clusterIP?: string; readonly clusterIPs?: readonly string[] };
}

type Notify = (code: string, note: string, service: string) => void;

interface FrontsDeps {
  readonly client: KubeClient;
  /** Our own namespace. */
  readonly namespace: string;
  readonly targets: readonly TargetConfig[];
  /** Labels of the proxy pods. */
  readonly selector: Readonly<Record<string, string>>;
  readonly log: Logger;
  /** Tells people (an Event) when an address that pods hold is lost. */
  readonly notify: Notify;
}

const FIELD_MANAGER = "switchback-controller";
/** Writes that failed are tried again after this time; a change that is seen is reconciled after the shorter one. */
const RETRY_MS = 5_000;
const SETTLE_MS = 50;

/**
 * Where each target is, and the front Services that give relayed targets an address of their own: at layer 4 the address is what
 * tells targets apart. Running pods hold these ClusterIPs in their hosts files, so a front that was deleted is made again with the
 * same ones, and until then the last known ones stay in the map.
 */
export class Fronts implements Addresses {
  readonly #deps: FrontsDeps;
  readonly #relayed: readonly TargetConfig[];
  /** By target: the addresses that were seen last, and those that an earlier leader published. */
  readonly #known = new Map<string, readonly string[]>();
  #fronts: Watcher<readonly string[]> | undefined;
  #upstreams: Array<{ readonly target: string; readonly watcher: Watcher<readonly string[]> }> = [];
  #leading: AbortSignal | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: FrontsDeps) {
    this.#deps = deps;
    this.#relayed = deps.targets.filter((target) => isRelayed(target) && target.clusterIPs.length === 0);
    for (const target of deps.targets) {
      if (target.clusterIPs.length > 0) this.#known.set(target.name, target.clusterIPs);
    }
  }

  start(onChange: () => void): void {
    const { client, namespace, targets, log } = this.#deps;
    const heard = (target: string, addresses: readonly string[] | undefined) => {
      if (addresses !== undefined && addresses.length > 0) this.#known.set(target, addresses);
      this.#reconcileSoon(SETTLE_MS);
      onChange();
    };
    this.#fronts = watchObjects<readonly string[]>({
      client,
      path: `/api/v1/namespaces/${namespace}/services`,
      labelSelector: TARGET_KEY,
      project: (raw) => clusterIPs(raw as RawService),
      onChange: ({ key, after }) => {
        const target = this.#relayed.find(({ name }) => key === `${namespace}/${frontName(name)}`);
        if (target !== undefined) heard(target.name, after);
      },
      onSynced: onChange,
      log,
    });
    for (const target of targets) {
      if (isRelayed(target) || target.clusterIPs.length > 0 || !("service" in target.upstream)) continue;
      const { service } = target.upstream;
      const watcher = watchObjects<readonly string[]>({
        client,
        path: `/api/v1/namespaces/${service.namespace}/services`,
        fieldSelector: `metadata.name=${service.name}`,
        project: (raw) => clusterIPs(raw as RawService),
        onChange: ({ after }) => heard(target.name, after),
        onSynced: onChange,
        log,
      });
      this.#upstreams.push({ target: target.name, watcher });
    }
  }

  get synced(): boolean {
    const watchers = [this.#fronts, ...this.#upstreams.map(({ watcher }) => watcher)];
    return watchers.every((watcher) => watcher?.state.synced === true);
  }

  get inactiveMs(): number {
    const watchers = [this.#fronts, ...this.#upstreams.map(({ watcher }) => watcher)];
    return Math.max(...watchers.map((watcher) => watcher?.state.inactiveMs ?? 0));
  }

  targets(): readonly TargetAddress[] {
    return this.#deps.targets.map(({ name }) => ({ name, clusterIPs: this.#known.get(name) ?? [] }));
  }

  lead(remembered: readonly TargetAddress[], signal: AbortSignal): void {
    for (const { name, clusterIPs: addresses } of remembered) {
      if (addresses.length > 0 && !this.#known.has(name)) this.#known.set(name, addresses);
    }
    this.#leading = signal;
    this.#reconcileSoon(0);
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#leading = undefined;
    await Promise.all([this.#fronts?.stop(), ...this.#upstreams.map(({ watcher }) => watcher.stop())]);
  }

  #reconcileSoon(delayMs: number): void {
    if (this.#leading === undefined || this.#leading.aborted) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#reconcile(), delayMs);
  }

  /** Applying what stands there already changes nothing and makes no event, so this does not feed itself. */
  async #reconcile(): Promise<void> {
    for (const target of this.#relayed) {
      if (this.#leading === undefined || this.#leading.aborted) return;
      try {
        await this.#ensureFront(target);
      } catch (error) {
        this.#deps.log.warn({ code: "front-not-written", target: target.name }, describeError(error));
        this.#reconcileSoon(RETRY_MS);
      }
    }
  }

  async #ensureFront(target: TargetConfig): Promise<void> {
    const addresses = this.#known.get(target.name) ?? [];
    try {
      await this.#apply(target, addresses);
    } catch (error) {
      // 422 with an address of ours: it was given to another Service, or the Service range has changed. Names must move on.
      if (statusOf(error) !== 422 || addresses.length === 0) throw error;
      await this.#apply(target, []);
      const note = `the ClusterIP ${addresses.join(", ")} could not be had again; pods that hold it must be made anew`;
      this.#deps.log.error({ code: "front-address-lost", target: target.name }, `${note}: ${describeError(error)}`);
      this.#deps.notify("front-address-lost", note, frontName(target.name));
    }
  }

  async #apply(target: TargetConfig, addresses: readonly string[]): Promise<void> {
    const { client, namespace } = this.#deps;
    const path = `/api/v1/namespaces/${namespace}/services/${frontName(target.name)}`;
    const object = this.#frontService(target, addresses);
    const written = await client.apply<RawService>(path, object, { fieldManager: FIELD_MANAGER, force: true });
    this.#known.set(target.name, clusterIPs(written));
  }

  #frontService({ name }: TargetConfig, addresses: readonly string[]): object {
    const { namespace, selector, targets } = this.#deps;
    const labels = {
      "app.kubernetes.io/name": "switchback",
      "app.kubernetes.io/component": "front",
      [TARGET_KEY]: name,
    };
    // The listeners of all targets are derived together: a port that two of them would take goes to one.
    const ports = listenersOf(targets)
      .filter(({ target }) => target === name)
      .map(({ port, listenPort }) => ({ name: `tcp-${port}`, protocol: "TCP", port, targetPort: listenPort }));
    const fixed = addresses.length === 0 ? {} : { clusterIP: addresses[0], clusterIPs: addresses };
    return {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: frontName(name), namespace, labels },
      spec: { type: "ClusterIP", ipFamilyPolicy: "PreferDualStack", selector, ports, ...fixed },
    };
  }
}

/** The literals among a Service's ClusterIPs: a headless one says `None`. */
function clusterIPs(service: RawService): readonly string[] {
  return (service.spec?.clusterIPs ?? [service.spec?.clusterIP ?? ""]).filter((address) => isIP(address) !== 0);
}
