import { isDeepStrictEqual } from "node:util";
import type { Config } from "#lib/config/schema.ts";
import type { Kind, SourceDeps } from "./followed-kind.ts";
import { type GatewayObject, gatewayClaims } from "./gateway/route-attachment.ts";
import {
  type ClassView,
  GATEWAY_GROUP,
  type GatewayView,
  type ListenerSetView,
  ROUTE_KINDS,
  type RouteKind,
  type RouteView,
  SET_GROUPS,
  type SetKind,
  viewClass,
  viewGateway,
  viewListenerSet,
  viewRoute,
} from "./gateway/view.ts";
import { KindsSource } from "./kinds-source.ts";
import type { Namespaces } from "./namespaces.ts";
import type { Source } from "./types.ts";

/** The GatewayClasses, Gateways, ListenerSets and routes of a cluster that may have Gateway API. */
export function gatewaySource(
  deps: SourceDeps & {
    /** Their labels decide which routes a listener takes. */
    readonly namespaces: Pick<Namespaces, "follow" | "of" | "synced">;
    readonly config: Config["sources"];
    readonly clusterDomain?: string | undefined;
  },
): Source {
  const { config, namespaces } = deps;
  const labelsOf = (namespace: string) => namespaces.of(namespace)?.labels;
  const source = new KindsSource<GatewayObject>(deps, {
    kinds: gatewayKinds(deps.clusterDomain),
    prepare: (objects) => gatewayClaims(objects, { ...config.gateway, labelsOf }),
    isReady: () => namespaces.synced,
  });
  namespaces.follow((_name, before, after) => {
    if (!isDeepStrictEqual(before?.labels, after?.labels)) source.changed();
  });
  return source;
}

const STANDARD = { group: GATEWAY_GROUP, versions: ["v1"] };

/** The kinds, with the versions that are read of each. TLSRoute was the last one to become `v1`. */
function gatewayKinds(clusterDomain: string | undefined): Kind<GatewayObject>[] {
  const classes: Kind<ClassView> = {
    ...STANDARD,
    prefix: "GatewayClass ",
    resource: "gatewayclasses",
    isShared: true,
    project: viewClass,
  };
  const gateways: Kind<GatewayView> = {
    ...STANDARD,
    prefix: "Gateway ",
    resource: "gateways",
    isShared: true,
    project: (raw) => viewGateway(raw, { clusterDomain }),
    pick: pickListeners,
  };
  return [
    classes,
    gateways,
    ...(["ListenerSet", "XListenerSet"] as const).map(listenerSets),
    ...ROUTE_KINDS.map(routes),
  ];
}

function listenerSets(kind: SetKind): Kind<ListenerSetView> {
  return {
    prefix: `${kind} `,
    group: SET_GROUPS[kind],
    versions: kind === "ListenerSet" ? ["v1"] : ["v1alpha1"],
    resource: `${kind.toLowerCase()}s`,
    isShared: true,
    project: (raw) => viewListenerSet(raw, kind),
    pick: pickListeners,
  };
}

function pickListeners<V extends GatewayView | ListenerSetView>(view: V, keeps: (name: string) => boolean): V {
  return { ...view, listeners: view.listeners.filter(({ hostname }) => keeps(hostname ?? "")) };
}

function routes(kind: RouteKind): Kind<RouteView> {
  return {
    prefix: `${kind} `,
    group: GATEWAY_GROUP,
    versions: kind === "TLSRoute" ? ["v1", "v1alpha3", "v1alpha2"] : ["v1"],
    resource: `${kind.toLowerCase()}s`,
    project: (raw) => viewRoute(kind, raw),
    pick: (view, keeps) => ({ ...view, hostnames: view.hostnames.filter(keeps) }),
  };
}
