import type { GatewayObject } from "#controller/sources/gateway/view.ts";
import { type GatewayOptions, gatewayClaims, type Labels } from "#controller/sources/gateway.ts";
import type { Raw } from "#controller/sources/raw-object.ts";
import type { View } from "#controller/sources/types.ts";

// Gateways, ListenerSets and routes for tests, as the API server returns them.

export const INFRA = "gateway-conformance-infra";
export const BACKEND = "gateway-conformance-web-backend";
export const CREATED = "2026-01-01T00:00:00Z";

export interface ListenerParts {
  readonly name?: string;
  readonly hostname?: string;
  readonly port?: number;
  readonly protocol?: string;
  readonly from?: string;
  readonly selector?: object;
  readonly kinds?: readonly object[];
}

const TRUE = [{ type: "Accepted", status: "True", reason: "Accepted", message: "" }];

function listenerObjects(listeners: readonly ListenerParts[]): Raw[] {
  return listeners.map((parts, index) => {
    const { name = `listener-${index + 1}`, port = 80, protocol = "HTTP", from, selector, kinds, ...rest } = parts;
    const namespaces = from === undefined ? {} : { namespaces: { from, ...(selector && { selector }) } };
    return { name, port, protocol, ...rest, allowedRoutes: { ...namespaces, ...(kinds && { kinds }) } };
  });
}

/** A Gateway that its controller has accepted. `allowedListeners` is about ListenerSets. */
export function gatewayObject(
  name: string,
  listeners: readonly ListenerParts[],
  more: Raw = {},
  allowedListeners?: object,
): Raw {
  return {
    metadata: { namespace: INFRA, name, creationTimestamp: CREATED },
    spec: {
      gatewayClassName: "example",
      listeners: listenerObjects(listeners),
      ...(allowedListeners && { allowedListeners: { namespaces: allowedListeners } }),
    },
    status: { addresses: [{ type: "IPAddress", value: "192.0.2.1" }], conditions: TRUE },
    ...more,
  };
}

/** A ListenerSet that its controller has accepted. */
export function listenerSetObject(
  name: string,
  gateway: string | Raw,
  listeners: readonly ListenerParts[],
  parts: { readonly namespace?: string; readonly status?: Raw; readonly annotations?: Raw } = {},
): Raw {
  const { namespace = INFRA, status = { conditions: TRUE }, annotations = {} } = parts;
  const parentRef =
    typeof gateway === "string"
      ? { group: "gateway.networking.k8s.io", kind: "Gateway", name: gateway, namespace: INFRA }
      : gateway;
  return {
    metadata: { namespace, name, creationTimestamp: CREATED, annotations },
    spec: { parentRef, listeners: listenerObjects(listeners) },
    status,
  };
}

/** A route that its controller has accepted everywhere. */
export function routeObject(
  name: string,
  parents: readonly (string | Raw)[],
  hostnames?: readonly string[],
  parts: { readonly namespace?: string; readonly accepted?: unknown; readonly annotations?: Raw } = {},
): Raw {
  const { namespace = INFRA, accepted = TRUE, annotations = {} } = parts;
  const parentRefs = parents.map((parent) =>
    typeof parent === "string" ? { name: parent, namespace: INFRA } : parent,
  );
  return {
    metadata: { namespace, name, creationTimestamp: CREATED, annotations },
    spec: { parentRefs, ...(hostnames && { hostnames }) },
    status: {
      parents: parentRefs.map((parentRef) => ({ parentRef, controllerName: "example.com/c", conditions: accepted })),
    },
  };
}

export const HTTP = "HTTPRoute";

/** Objects of Gateway API, and the claims that follow from all of them. */
export function gatewayWorld(options: Partial<GatewayOptions> = {}) {
  const objects = new Map<string, GatewayObject>();
  const labels = new Map<string, Labels>();
  const all = { requireAccepted: true, listeners: true, labelsOf: (name: string) => labels.get(name), ...options };
  const claims = (object: string): readonly View[] => {
    const view = objects.get(object);
    return view === undefined ? [] : gatewayClaims(objects, all)(view, object);
  };
  return {
    objects,
    /** The labels of each namespace. */
    labels,
    /** Adds or replaces an object. Returns its name among the objects. */
    put(view: GatewayObject): string {
      const { kind, namespace, name } = view.ref;
      const object = namespace === "" ? `${kind} ${name}` : `${kind} ${namespace}/${name}`;
      objects.set(object, view);
      return object;
    },
    claims,
    outcome: (object: string) =>
      claims(object).map(({ hostname, hints }) => ("code" in hints ? `${hostname}: ${hints.code}` : hostname)),
  };
}
