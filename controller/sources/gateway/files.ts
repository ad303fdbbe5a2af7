import type { Raw } from "../raw-object.ts";
import type { ViewSink } from "../types.ts";
import { type FileObject, isOfKind } from "../yaml-file.ts";
import { GatewayRegistry } from "./gateway-registry.ts";
import type { Labels } from "./selector.ts";
import {
  GATEWAY_GROUP,
  ROUTE_KINDS,
  SET_GROUPS,
  type SetKind,
  viewGateway,
  viewListenerSet,
  viewRoute,
} from "./view.ts";

/** Gateways, ListenerSets and routes from YAML files. No controller writes their status, so they need no acceptance. */
export class GatewayFiles {
  readonly #registry: GatewayRegistry;
  #known: ReadonlySet<string> = new Set();

  constructor(sink: ViewSink) {
    this.#registry = new GatewayRegistry({ requireAccepted: false, listeners: true }, sink);
    this.#registry.open();
  }

  /** Replaces all objects. */
  update(objects: readonly FileObject[]): void {
    const namespaces = objects.filter((object) => isOfKind(object, "", "Namespace"));
    const labels = namespaces.map(({ raw }): [string, Labels] => [raw.metadata.name, raw.metadata.labels ?? {}]);
    this.#registry.setNamespaces(new Map(labels));
    const there = new Set<string>();
    for (const object of objects.filter(isGatewayKind)) {
      there.add(keyOf(object));
      this.#set(keyOf(object), object);
    }
    for (const key of this.#known.difference(there)) this.#set(key, undefined);
    this.#known = there;
  }

  #set(key: string, object: FileObject | undefined): void {
    const [name = "", namespacedName = ""] = key.split(" ");
    const raw = object?.raw as Raw | undefined;
    const kind = ROUTE_KINDS.find((each) => each === name);
    if (kind !== undefined) this.#registry.setRoute(key, raw && viewRoute(kind, raw, object?.file));
    else if (isSetKind(name)) {
      this.#registry.setListenerSet(namespacedName, raw && viewListenerSet(raw, object?.file, name), name);
    } else this.#registry.setGateway(namespacedName, raw && viewGateway(raw, { file: object?.file }));
  }
}

/** Checks the group too, because Istio also has Gateways. */
export function isGatewayKind(object: FileObject): boolean {
  const isSet = Object.entries(SET_GROUPS).some(([kind, group]) => isOfKind(object, group, kind));
  return isSet || ["Gateway", ...ROUTE_KINDS].some((kind) => isOfKind(object, GATEWAY_GROUP, kind));
}

/** Whether objects of this kind add listeners to a Gateway. */
export function isSetKind(kind: string): kind is SetKind {
  return Object.hasOwn(SET_GROUPS, kind);
}

function keyOf({ raw }: FileObject): string {
  return `${raw.kind} ${raw.metadata.namespace ?? "default"}/${raw.metadata.name}`;
}
