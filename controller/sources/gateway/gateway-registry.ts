import { isDeepStrictEqual } from "node:util";
import { KeyIndex } from "../key-index.ts";
import type { View, ViewSink } from "../types.ts";
import { type AttachmentContext, claimsOfGateway, claimsOfListenerSet, claimsOfRoute } from "./route-attachment.ts";
import type { Labels } from "./selector.ts";
import type { GatewayView, ListenerSetView, ParentView, RouteView, SetKind } from "./view.ts";

export interface GatewayRegistryOptions {
  /** Use only Gateways and routes that their controllers have accepted. */
  readonly requireAccepted: boolean;
  /** Whether Gateways and ListenerSets claim the hostnames of their listeners. */
  readonly listeners: boolean;
  /** Called if the claims of an object could not be determined. */
  readonly onError?: (key: string, error: unknown) => void;
}

/**
 * Gateways, ListenerSets, routes and their claims, updated incrementally. A changed route is evaluated alone. A
 * changed ListenerSet is evaluated with the routes that have it as a parent, and a changed Gateway with its routes
 * and its ListenerSets. Objects that are set before `open` are evaluated by `open`, all at once.
 */
export class GatewayRegistry {
  readonly #options: GatewayRegistryOptions;
  readonly #sink: ViewSink;
  readonly #gateways = new Map<string, GatewayView>();
  /** By GatewayClass: its controller, and the namespace of the parameters of its implementation. */
  readonly #classes = new Map<string, { readonly controller: string; readonly namespace: string | undefined }>();
  /** ListenerSets by their ids (`idOf`). */
  readonly #sets = new Map<string, ListenerSetView>();
  readonly #routes = new Map<string, RouteView>();
  /** Keys of the routes by their parents (`idOf`), even if a parent does not exist. */
  readonly #routesOf = new KeyIndex();
  /** Ids of the ListenerSets by their Gateway. */
  readonly #setsOf = new KeyIndex();
  /** Ids of the Gateways and ListenerSets with a listener that selects namespaces by their labels. */
  readonly #selecting = new Set<string>();
  /** Keys of the Gateways that select the namespaces of their ListenerSets. */
  readonly #selectingSets = new Set<string>();
  #namespaces: Pick<ReadonlyMap<string, Labels>, "get"> | undefined;
  #open = false;

  constructor(options: GatewayRegistryOptions, sink: ViewSink) {
    this.#options = options;
    this.#sink = sink;
  }

  /** Whether any object selects namespaces by labels. */
  get selects(): boolean {
    return this.#selecting.size + this.#selectingSets.size > 0;
  }

  /** Starts to report claims. */
  open(): void {
    this.#open = true;
    for (const key of this.#gateways.keys()) this.#decideGateway(key);
    for (const id of this.#sets.keys()) this.#decideSet(id);
    for (const key of this.#routes.keys()) this.#decideRoute(key);
  }

  /**
   * `controller` is undefined if the GatewayClass was deleted. `namespace` is that of the parameters of the class
   * (`spec.parametersRef`).
   */
  setClass(name: string, controller: string | undefined, namespace?: string): void {
    const before = this.#classes.get(name);
    if (before?.controller === controller && before?.namespace === namespace) return;
    if (controller === undefined) this.#classes.delete(name);
    else this.#classes.set(name, { controller, namespace });
    for (const [key, view] of this.#gateways) if (view.hints.className === name) this.setGateway(key, view);
  }

  setGateway(key: string, own: GatewayView | undefined): void {
    const view = own && this.#withClass(own);
    // A Gateway's status counts its routes, so each route changes the object, but no field that matters here.
    if (isDeepStrictEqual(this.#gateways.get(key), view)) return;
    if (view === undefined) this.#gateways.delete(key);
    else this.#gateways.set(key, view);
    this.#noteSelectors(idOf("Gateway", key), view);
    setMember(this.#selectingSets, key, view?.allowedSets.from === "Selector");
    this.#decideGateway(key);
    this.#decideRoutesOf(idOf("Gateway", key));
    for (const set of this.#setsOf.at(key)) this.#decideSetAndRoutes(set);
  }

  setListenerSet(key: string, view: ListenerSetView | undefined, kind: SetKind = "ListenerSet"): void {
    const id = idOf(kind, key);
    const before = this.#sets.get(id);
    // The status of a ListenerSet counts routes, as with Gateways.
    if (isDeepStrictEqual(before, view)) return;
    if (before?.gateway !== undefined) this.#setsOf.remove(before.gateway, id);
    if (view?.gateway !== undefined) this.#setsOf.add(view.gateway, id);
    if (view === undefined) this.#sets.delete(id);
    else this.#sets.set(id, view);
    this.#noteSelectors(id, view);
    this.#decideSetAndRoutes(id);
  }

  /** `key` must differ for routes of different kinds. */
  setRoute(key: string, view: RouteView | undefined): void {
    const before = this.#routes.get(key);
    if (isDeepStrictEqual(before, view)) return;
    for (const parent of before?.parents ?? []) this.#routesOf.remove(idOf(parent.kind, parent.key), key);
    for (const parent of view?.parents ?? []) this.#routesOf.add(idOf(parent.kind, parent.key), key);
    if (view === undefined) this.#routes.delete(key);
    else this.#routes.set(key, view);
    this.#decideRoute(key);
  }

  /** Sets the labels of all namespaces. They are known from now on. */
  setNamespaces(namespaces: Pick<ReadonlyMap<string, Labels>, "get">): void {
    this.#namespaces = namespaces;
    this.#decideSelected();
  }

  /** Evaluates the routes and ListenerSets of a namespace whose labels have changed. */
  namespaceChanged(name: string): void {
    if (this.#namespaces !== undefined) this.#decideSelected(name);
  }

  /** `namespace` limits the evaluation to objects of that namespace, and to the routes of its ListenerSets. */
  #decideSelected(namespace?: string): void {
    const isConcerned = (object: RouteView | ListenerSetView | undefined) =>
      object !== undefined && (namespace === undefined || object.ref.namespace === namespace);
    const attached = [...this.#selecting].flatMap((id) => [...this.#routesOf.at(id)]);
    const routes = new Set(attached.filter((key) => isConcerned(this.#routes.get(key))));
    const sets = [...this.#selectingSets].flatMap((gateway) => [...this.#setsOf.at(gateway)]);
    for (const id of sets.filter((each) => isConcerned(this.#sets.get(each)))) {
      this.#decideSet(id);
      for (const key of this.#routesOf.at(id)) routes.add(key);
    }
    for (const key of routes) this.#decideRoute(key);
  }

  #withClass(view: GatewayView): GatewayView {
    const { controller: _before, gateway, ...hints } = view.hints;
    const { controller, namespace } = this.#classes.get(hints.className ?? "") ?? {};
    const { namespace: ownNamespace, name } = view.ref;
    const ofClass = { namespace: ownNamespace, name, ...(namespace && { classNamespace: namespace }) };
    return { ...view, hints: { ...hints, ...(controller && { controller }), ...(gateway && { gateway: ofClass }) } };
  }

  #decideSetAndRoutes(id: string): void {
    this.#decideSet(id);
    this.#decideRoutesOf(id);
  }

  #decideRoutesOf(parent: string): void {
    for (const key of this.#routesOf.at(parent)) this.#decideRoute(key);
  }

  #decideSet(id: string): void {
    if (!this.#open || !this.#options.listeners) return;
    const view = this.#sets.get(id);
    this.#guarded(id, () => (view === undefined ? [] : claimsOfListenerSet(view, this.#surroundings())));
  }

  #decideGateway(key: string): void {
    if (!this.#open || !this.#options.listeners) return;
    const view = this.#gateways.get(key);
    this.#guarded(idOf("Gateway", key), () =>
      view === undefined ? [] : claimsOfGateway(view, this.#options.requireAccepted),
    );
  }

  /** An object that cannot be evaluated affects only itself: its earlier claims stay, and the caller's loop goes on. */
  #guarded(key: string, claimsOf: () => readonly View[] | undefined): void {
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
      listenerSet: ({ kind, key }) => this.#sets.get(idOf(kind, key)),
      namespaces: this.#namespaces,
      requireAccepted: this.#options.requireAccepted,
    };
  }

  #noteSelectors(id: string, view: GatewayView | ListenerSetView | undefined): void {
    setMember(this.#selecting, id, view?.listeners.some(({ from }) => from === "Selector") === true);
  }
}

/** Identifies a Gateway or ListenerSet among the objects of both kinds. */
function idOf(kind: ParentView["kind"], key: string): string {
  return `${kind} ${key}`;
}

function setMember(set: Set<string>, key: string, isMember: boolean): void {
  if (isMember) set.add(key);
  else set.delete(key);
}
