import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import type { Config } from "#lib/config/schema.ts";
import { frontName } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { FIELD_MANAGER } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { RawService } from "#lib/kube/services.ts";
import { pause } from "#lib/kube/time.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { literalIPs } from "./targets/service-view.ts";

interface RawFront extends Pick<RawService, "spec"> {
  readonly metadata: ObjectMeta & { readonly name: string };
}

const DISTRIBUTION_FIELD = "trafficDistribution";

/** A front Service, as the target that it leads to shows: nobody knows what is behind it. */
interface Front {
  readonly uid: string | undefined;
  /** Differs after every change of the Service. */
  readonly version: string | undefined;
  readonly target: PublishedTarget;
}

export interface FrontServicesDeps {
  readonly client: KubeClient;
  readonly config: Pick<Config, "namespace" | "proxy">;
  readonly log: Logger;
  /** Records an Event when an address that pods hold is lost. */
  readonly notify: (code: string, note: string, service: string) => void;
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
  readonly watch: Informer<Front>;
  /** Undefined also once the API server does not know the value. Kubernetes knows them from 1.31 and 1.35 on. */
  #distribution: Config["proxy"]["trafficDistribution"];
  /** By target: what was applied last, and the version that it gave the Service. */
  readonly #applied = new Map<string, string>();

  /** Starts the watch. `onChange` is called when a front Service was added, changed or deleted. */
  constructor(deps: FrontServicesDeps, onChange: () => void) {
    const { client, config, log } = deps;
    this.#deps = deps;
    this.#distribution = config.proxy.trafficDistribution;
    const selection = { path: corePath("services", config.namespace), labelSelector: TARGET_KEY };
    this.watch = watchObjects<Front, RawFront>({
      ...{ client, log, ...selection, onChange, onSynced: onChange },
      project: viewFront,
    });
  }

  /** The targets of the front Services that exist, in no order. */
  get targets(): PublishedTarget[] {
    return Array.from(this.watch.objects().values(), ({ target }) => target);
  }

  /**
   * Applies the front Service, unless it is still as the last apply left it. The first apply of a leader usually
   * changes nothing, and then the API server writes nothing. `held` are the addresses that pods hold. Another Service
   * may have them, or the Service range has changed: if the API server keeps answering 422, the front gets new ones. A
   * single refusal does not count, because the address of a deleted front becomes free only shortly after we observe
   * the deletion. Throws other errors of the API server: with status 409 if it is not the Service that was seen last.
   * Throws when `signal` aborts.
   */
  async ensure(target: PublishedTarget, held: readonly string[], signal: AbortSignal): Promise<void> {
    const { name } = target;
    const seen = this.#seen(name);
    if (seen !== undefined && this.#applied.get(name) === this.#stateOf(target, seen)) return;
    for (const waitMs of ADDRESS_WAITS_MS) {
      if (await this.#isTaken(target, held)) return;
      await pause(waitMs, signal);
      signal.throwIfAborted();
    }
    await this.#isTaken(target, []);
    const note = `The ClusterIP ${held.join(", ")} could not be reassigned; pods that hold it must be recreated`;
    this.#deps.log.error({ code: "front-address-lost", target: name }, note);
    this.#deps.notify("front-address-lost", note, frontName(name));
  }

  /** Applies the front Service. Returns false if the API server refuses the addresses. */
  async #isTaken(target: PublishedTarget, addresses: readonly string[]): Promise<boolean> {
    try {
      this.#applied.set(target.name, this.#stateOf(target, await this.#apply(target, addresses)));
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

  /** A value of `trafficDistribution` that the API server refuses is left out. */
  #leaveOutDistribution(why: string): void {
    // A concurrent write may have left it out already.
    if (this.#distribution === undefined) return;
    this.#deps.log.warn({ code: "traffic-distribution-refused", tried: this.#distribution }, why);
    this.#distribution = undefined;
  }

  /** Deletes the front Service of a target that is no longer used. */
  async remove(target: string): Promise<void> {
    const { uid } = this.#seen(target) ?? {};
    this.#applied.delete(target);
    if (uid === undefined) return;
    await this.watch.request(this.#keyOf(target), async () => {
      try {
        await this.#deps.client.delete(this.#pathOf(target), { preconditions: { uid } });
      } catch (error) {
        if (statusOf(error) !== 404) throw error;
      }
      return undefined;
    });
  }

  /** The front Service of a target, as the watch or the answer of our last write showed it. */
  #seen(target: string): Front | undefined {
    return this.watch.objects().get(this.#keyOf(target));
  }

  /** The version of the front Service, and what it should have. */
  #stateOf(target: PublishedTarget, front: Front | undefined): string {
    return JSON.stringify([front?.version, this.#specOf(target)]);
  }

  #keyOf(target: string): string {
    return `${this.#deps.config.namespace}/${frontName(target)}`;
  }

  #specOf({ ports }: PublishedTarget) {
    const { selector } = this.#deps.config.proxy;
    const distribution = this.#distribution && { [DISTRIBUTION_FIELD]: this.#distribution };
    const listed = ports.map(({ port, listenPort: targetPort }) => {
      return { name: `tcp-${port}`, protocol: "TCP", port, targetPort };
    });
    return { type: "ClusterIP", ipFamilyPolicy: "PreferDualStack", selector, ports: listed, ...distribution };
  }

  /**
   * Applies the front Service, whether it exists or not, and returns it. Also gives it back a label that somebody
   * removed, without which the watch does not show it.
   */
  async #apply(target: PublishedTarget, addresses: readonly string[]): Promise<Front | undefined> {
    const { client, config } = this.#deps;
    const { uid } = this.#seen(target.name) ?? {};
    const labels = {
      "app.kubernetes.io/name": "switchback",
      "app.kubernetes.io/component": "front",
      [TARGET_KEY]: target.name,
    };
    const fixed = addresses.length === 0 ? {} : { clusterIP: addresses[0], clusterIPs: addresses };
    const { namespace } = config;
    const metadata = { name: frontName(target.name), namespace, labels, ...(uid && { uid }) };
    const object = { apiVersion: "v1", kind: "Service", metadata, spec: { ...this.#specOf(target), ...fixed } };
    const options = { fieldManager: FIELD_MANAGER, force: true };
    return await this.watch.request(this.#keyOf(target.name), () =>
      client.apply<RawFront>(this.#pathOf(target.name), object, options),
    );
  }

  #pathOf(target: string): string {
    return corePath("services", this.#deps.config.namespace, frontName(target));
  }
}

/** Undefined: a Service with our label and another name is not a front. */
function viewFront({ metadata, spec }: RawFront): Front | undefined {
  const name = metadata.labels?.[TARGET_KEY];
  if (!name || metadata.name !== frontName(name)) return undefined;
  const ports = (spec?.ports ?? []).flatMap(({ port, targetPort = port }) =>
    port !== undefined && typeof targetPort === "number"
      ? { port, listenPort: targetPort, upstreamPort: port, protocol: "v1" as const }
      : [],
  );
  const target = { name, clusterIPs: literalIPs(spec), upstream: frontName(name), upstreamIPs: [], ports };
  return { uid: metadata.uid, version: metadata.resourceVersion, target };
}
