import { isDeepStrictEqual } from "node:util";
import { KeyIndex } from "../key-index.ts";
import type { View, ViewSink } from "../types.ts";
import { claimsOfGateway, claimsOfVirtualService, hintsOf, type KnownGateway } from "./claims.ts";
import { ServerHosts } from "./hosts.ts";
import type { GatewayView, VirtualServiceView } from "./view.ts";

interface IstioRegistryOptions {
  /** Whether Gateways claim the hosts of their servers. */
  readonly gateways: boolean;
  /** Called if the claims of an object could not be determined. */
  readonly onError?: (key: string, error: unknown) => void;
}

/**
 * Istio's Gateways, VirtualServices and their claims, updated incrementally. A changed VirtualService is evaluated
 * alone, and a changed Gateway with its VirtualServices. Objects that are set before `open` are evaluated by `open`,
 * all at once.
 */
export class IstioRegistry {
  readonly #options: IstioRegistryOptions;
  readonly #sink: ViewSink;
  readonly #gateways = new Map<string, KnownGateway>();
  readonly #services = new Map<string, VirtualServiceView>();
  /** Keys of the VirtualServices by their Gateways, even if a Gateway does not exist. */
  readonly #servicesOf = new KeyIndex();
  #open = false;

  constructor(options: IstioRegistryOptions, sink: ViewSink) {
    this.#options = options;
    this.#sink = sink;
  }

  /** Starts to report claims. */
  open(): void {
    this.#open = true;
    for (const key of this.#gateways.keys()) this.#decideGateway(key);
    for (const key of this.#services.keys()) this.#decideService(key);
  }

  setGateway(key: string, view: GatewayView | undefined): void {
    if (isDeepStrictEqual(this.#gateways.get(key)?.view, view)) return;
    if (view === undefined) this.#gateways.delete(key);
    else this.#gateways.set(key, { view, hosts: new ServerHosts(view.hosts), hints: hintsOf(view) });
    this.#decideGateway(key);
    for (const service of this.#servicesOf.at(key)) this.#decideService(service);
  }

  setVirtualService(key: string, view: VirtualServiceView | undefined): void {
    const before = this.#services.get(key);
    if (isDeepStrictEqual(before, view)) return;
    for (const gateway of before?.gateways ?? []) this.#servicesOf.remove(gateway, key);
    for (const gateway of view?.gateways ?? []) this.#servicesOf.add(gateway, key);
    if (view === undefined) this.#services.delete(key);
    else this.#services.set(key, view);
    this.#decideService(key);
  }

  #decideGateway(key: string): void {
    if (!this.#options.gateways) return;
    const gateway = this.#gateways.get(key);
    this.#report(`Gateway ${key}`, () => (gateway === undefined ? [] : claimsOfGateway(gateway)));
  }

  #decideService(key: string): void {
    const view = this.#services.get(key);
    this.#report(`VirtualService ${key}`, () =>
      view === undefined ? [] : claimsOfVirtualService(view, (gateway) => this.#gateways.get(gateway)),
    );
  }

  /** An object that cannot be evaluated affects only itself: its earlier claims stay, and the caller's loop goes on. */
  #report(key: string, claimsOf: () => readonly View[]): void {
    if (!this.#open) return;
    try {
      this.#sink(key, claimsOf());
    } catch (error) {
      this.#options.onError?.(key, error);
    }
  }
}
