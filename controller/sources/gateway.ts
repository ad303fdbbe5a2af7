import { isDeepStrictEqual } from "node:util";
import type { Config } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { type GatewayObject, gatewayClaims, type Owners } from "./gateway/route-attachment.ts";
import {
  EXPERIMENTAL_GROUP,
  GATEWAY_GROUP,
  type GatewayView,
  type ListenerSetView,
  type RouteKind,
  type RouteView,
  type SetKind,
  viewClass,
  viewGateway,
  viewListenerSet,
  viewRoute,
} from "./gateway/view.ts";
import { graphSource } from "./graph-source.ts";
import type { Namespaces } from "./namespaces.ts";
import type { OptionalKind } from "./optional-kinds.ts";
import type { Source } from "./types.ts";

/** The GatewayClasses, Gateways, ListenerSets and routes of a cluster that may have Gateway API. */
export function gatewaySource(deps: {
  readonly client: KubeClient;
  /** Their labels decide which routes a listener takes. */
  readonly namespaces: Pick<Namespaces, "follow" | "labelsOf" | "synced">;
  readonly config: Config["sources"];
  readonly budget: ClaimBudget;
  readonly log: Logger;
  readonly clusterDomain?: string | undefined;
}): Source {
  const { config, namespaces } = deps;
  let owners: Owners = new Map();
  const labelsOf = (namespace: string) => namespaces.labelsOf(namespace);
  const source = graphSource<GatewayObject>(deps, {
    kinds: gatewayKinds(deps.clusterDomain),
    claimsOf: (objects) => {
      const claims = gatewayClaims(objects, { ...config.gateway, labelsOf }, owners);
      owners = claims.owners;
      return claims.all;
    },
    isReady: () => namespaces.synced,
  });
  namespaces.follow((_name, before, after) => {
    if (!isDeepStrictEqual(before?.labels, after?.labels)) source.changed();
  });
  return source;
}

/** The kinds, with the versions that are read of each. TLSRoute was the last one to become `v1`. */
function gatewayKinds(clusterDomain: string | undefined): OptionalKind<GatewayObject>[] {
  const standard = { group: GATEWAY_GROUP, versions: ["v1"] };
  const gateways: OptionalKind<GatewayView> = {
    ...standard,
    prefix: "Gateway ",
    resource: "gateways",
    project: (raw) => viewGateway(raw, { clusterDomain }),
    pick: pickListeners,
  };
  return [
    { ...standard, prefix: "GatewayClass ", resource: "gatewayclasses", project: viewClass },
    gateways,
    listenerSets("ListenerSet", { ...standard, resource: "listenersets" }),
    listenerSets("XListenerSet", { group: EXPERIMENTAL_GROUP, versions: ["v1alpha1"], resource: "xlistenersets" }),
    routes("HTTPRoute", { ...standard, resource: "httproutes" }),
    routes("GRPCRoute", { ...standard, resource: "grpcroutes" }),
    routes("TLSRoute", { ...standard, versions: ["v1", "v1alpha3", "v1alpha2"], resource: "tlsroutes" }),
  ];
}

type Names = Pick<OptionalKind, "group" | "versions" | "resource">;

function listenerSets(kind: SetKind, names: Names): OptionalKind<ListenerSetView> {
  return { ...names, prefix: `${kind} `, project: (raw) => viewListenerSet(raw, kind), pick: pickListeners };
}

function routes(kind: RouteKind, names: Names): OptionalKind<RouteView> {
  const pick: OptionalKind<RouteView>["pick"] = (view, keeps) => ({
    ...view,
    hostnames: view.hostnames.filter(keeps),
  });
  return { ...names, prefix: `${kind} `, project: (raw) => viewRoute(kind, raw), pick };
}

function pickListeners<V extends GatewayView | ListenerSetView>(view: V, keeps: (name: string) => boolean): V {
  return { ...view, listeners: view.listeners.filter(({ hostname }) => keeps(hostname ?? "")) };
}
