import { isDeepStrictEqual } from "node:util";
import type { UnresolvedClaim, UnresolvedClaimSink } from "../types.ts";
import { type AttachmentContext, claimsOfGateway, claimsOfRoute } from "./route-attachment.ts";
import type { Labels } from "./selector.ts";
import type { GatewayView, RouteView } from "./view.ts";

export interface GatewayRegistryOptions {
  /** Use only Gateways and routes that their controllers have accepted. */
  readonly requireAccepted: boolean;
  /** Gateways claim the hostnames of their listeners. */
  readonly listeners: boolean;
  /** The claims of an object could not be determined. */
  readonly onError?: (key: string, error: unknown) => void;
}

/**
 * Gateways, routes and their claims, updated incrementally: a changed route is evaluated alone, a changed Gateway with the routes
 * that have it as a parent. Objects set before `open` are evaluated then, all at once.
 */
export class GatewayRegistry {
  readonly #options: GatewayRegistryOptions;
  readonly #sink: UnresolvedClaimSink;
  readonly #gateways = new Map<string, GatewayView>();
  readonly #routes = new Map<string, RouteView>();
  /** Keys of the routes that have a Gateway as a parent, by Gateway, whether it exists or not. */
  readonly #children = new Map<string, Set<string>>();
  /** Gateways with a listener that selects namespaces by their labels. */
  readonly #selecting = new Set<string>();
  #namespaces: ReadonlyMap<string, Labels> | undefined;
  #open = false;

  constructor(options: GatewayRegistryOptions, sink: UnresolvedClaimSink) {
    this.#options = options;
    this.#sink = sink;
  }

  /** Whether the labels of namespaces matter. */
  get selects(): boolean {
    return this.#selecting.size > 0;
  }

  /** Starts to report claims. */
  open(): void {
    this.#open = true;
    for (const key of this.#gateways.keys()) this.#decideGateway(key);
    for (const key of this.#routes.keys()) this.#decideRoute(key);
  }

  setGateway(key: string, view: GatewayView | undefined): void {
    // A Gateway's status counts its routes: each route changes the object, but nothing that matters here.
    if (isDeepStrictEqual(this.#gateways.get(key), view)) return;
    if (view === undefined) this.#gateways.delete(key);
    else this.#gateways.set(key, view);
    if (view?.listeners.some(({ from }) => from === "Selector")) this.#selecting.add(key);
    else this.#selecting.delete(key);
    this.#decideGateway(key);
    for (const route of this.#children.get(key) ?? []) this.#decideRoute(route);
  }

  /** `key` distinguishes routes of different kinds. */
  setRoute(key: string, view: RouteView | undefined): void {
    const before = this.#routes.get(key);
    if (isDeepStrictEqual(before, view)) return;
    for (const { gateway } of before?.parents ?? []) this.#unlink(gateway, key);
    for (const { gateway } of view?.parents ?? []) this.#link(gateway, key);
    if (view === undefined) this.#routes.delete(key);
    else this.#routes.set(key, view);
    this.#decideRoute(key);
  }

  /** Sets the labels of all namespaces, which are known from now on. */
  setNamespaces(namespaces: ReadonlyMap<string, Labels>): void {
    this.#namespaces = namespaces;
    this.#decideSelected(() => true);
  }

  /** Evaluates the routes of a namespace whose labels have changed. */
  namespaceChanged(name: string): void {
    if (this.#namespaces !== undefined) this.#decideSelected(({ ref }) => ref.namespace === name);
  }

  #decideSelected(concerned: (route: RouteView) => boolean): void {
    const keys = new Set<string>();
    for (const gateway of this.#selecting) for (const key of this.#children.get(gateway) ?? []) keys.add(key);
    for (const key of keys) {
      const route = this.#routes.get(key);
      if (route !== undefined && concerned(route)) this.#decideRoute(key);
    }
  }

  #decideGateway(key: string): void {
    if (!this.#open || !this.#options.listeners) return;
    const view = this.#gateways.get(key);
    this.#guarded(`Gateway ${key}`, () =>
      view === undefined ? [] : claimsOfGateway(view, this.#options.requireAccepted),
    );
  }

  /** One odd object costs itself: its earlier claims stay, and the loop that decides on several goes on. */
  #guarded(key: string, claimsOf: () => readonly UnresolvedClaim[] | undefined): void {
    try {
      const claims = claimsOf();
      // While the claims cannot be determined, the reported ones stay.
      if (claims !== undefined) this.#sink(key, claims);
    } catch (error) {
      this.#options.onError?.(key, error);
    }
  }

  #decideRoute(key: string): void {
    if (!this.#open) return;
    const route = this.#routes.get(key);
    this.#guarded(key, () => (route === undefined ? [] : claimsOfRoute(route, this.#surroundings())));
  }

  #surroundings(): AttachmentContext {
    return {
      gateway: (key) => this.#gateways.get(key),
      namespaces: this.#namespaces,
      requireAccepted: this.#options.requireAccepted,
    };
  }

  #link(gateway: string, route: string): void {
    const children = this.#children.get(gateway);
    if (children === undefined) this.#children.set(gateway, new Set([route]));
    else children.add(route);
  }

  #unlink(gateway: string, route: string): void {
    const children = this.#children.get(gateway);
    children?.delete(route);
    if (children?.size === 0) this.#children.delete(gateway);
  }
}
