import { isDeepStrictEqual } from "node:util";
import { show } from "#hostmap/hostnames.ts";
import type { Config } from "#lib/config/schema.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type GroupWatch, watchGroup } from "./api-discovery.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { GatewayRegistry } from "./gateway/gateway-registry.ts";
import {
  EXPERIMENTAL_GROUP,
  GATEWAY_GROUP,
  type GatewayView,
  type ListenerSetView,
  type RouteKind,
  type RouteView,
  SET_GROUPS,
  type SetKind,
  viewGateway,
  viewListenerSet,
  viewRoute,
} from "./gateway/view.ts";
import { type KindLimit, type PickNames, SourceLimit } from "./limited-objects.ts";
import type { Namespaces } from "./namespaces.ts";
import { OptionalInformer, type OptionalKind, resourceOfKind } from "./optional-informer.ts";
import { mapOf, type Raw, textOf } from "./raw-object.ts";
import type { Source, ViewSink } from "./types.ts";

/** The resources of routes, with the versions that `viewRoute` can read. TLSRoute was the last one to become `v1`. */
const ROUTES: ReadonlyArray<readonly [kind: RouteKind, resource: string, versions: readonly string[]]> = [
  ["HTTPRoute", "httproutes", ["v1"]],
  ["GRPCRoute", "grpcroutes", ["v1"]],
  ["TLSRoute", "tlsroutes", ["v1", "v1alpha3", "v1alpha2"]],
];

/** The resources of ListenerSets, with the version of each. */
const SETS: ReadonlyArray<readonly [kind: SetKind, resource: string, version: string]> = [
  ["ListenerSet", "listenersets", "v1"],
  ["XListenerSet", "xlistenersets", "v1alpha1"],
];

/** The GatewayClasses, Gateways, ListenerSets and routes of a cluster that may have Gateway API. */
export function gatewaySource(deps: {
  readonly client: KubeClient;
  /** Their labels decide which routes a listener takes. */
  readonly namespaces: Pick<Namespaces, "follow" | "labelsOf">;
  readonly config: Config["sources"];
  readonly budget: ClaimBudget;
  readonly log: Logger;
  readonly clusterDomain?: string | undefined;
}): Source {
  const { client, config, budget, namespaces, log, clusterDomain } = deps;
  const groupOf = (group: string) => ({
    group,
    discovery: watchGroup({ client, group, everyMs: config.discoverySeconds * 1000 }),
  });
  const [standard, experimental] = [groupOf(GATEWAY_GROUP), groupOf(EXPERIMENTAL_GROUP)];
  const removedMs = config.removedKindSeconds * 1000;
  const kinds: OptionalKind[] = [];
  function begin(sink: ViewSink, onSynced: () => void): void {
    const onError = (key: string, error: unknown) =>
      log.error({ code: "object-failed", object: show(key) }, describeError(error));
    const limit = new SourceLimit(budget, sink);
    const registry = new GatewayRegistry({ ...config.gateway, onError }, limit.sink);
    registry.setNamespaces({ get: (name) => namespaces.labelsOf(name) });
    namespaces.follow((name, before, after) => {
      if (!isDeepStrictEqual(before?.labels, after?.labels)) registry.namespaceChanged(name);
    });
    let open = false;
    const openWhenKnown = () => {
      if (open || kinds.some(({ known }) => !known)) return;
      open = true;
      registry.open();
      onSynced();
    };
    const common = { client, removedMs, log, onKnown: openWhenKnown };
    const follow: Follow = ({ group, discovery }, kind) =>
      new OptionalInformer({ ...common, group, discovery, ...kind });
    kinds.push(...gatewayKinds(follow, registry, { standard, experimental, limit, clusterDomain }));
  }

  return {
    start: begin,
    state: () => kinds.map(({ state }) => state),
    resourceOf: (object) => resourceOfKind(kinds, object),
    stop: async () => {
      await Promise.all([standard.discovery, experimental.discovery, ...kinds].map((watch) => watch.stop()));
    },
  };
}

/** An API group, and what it serves. */
interface ServedGroup {
  readonly group: string;
  readonly discovery: GroupWatch;
}

/** Follows the objects of one kind. */
type Follow = <V>(
  of: ServedGroup,
  kind: Pick<ConstructorParameters<typeof OptionalInformer<V>>[0], "resource" | "versions" | "project" | "onChange"> & {
    readonly limit?: KindLimit<V>;
  },
) => OptionalKind;

/** Passes the objects of all kinds to the registry. */
function gatewayKinds(
  follow: Follow,
  registry: GatewayRegistry,
  of: {
    readonly standard: ServedGroup;
    readonly experimental: ServedGroup;
    readonly limit: SourceLimit;
    readonly clusterDomain: string | undefined;
  },
): OptionalKind[] {
  const { standard, experimental, limit, clusterDomain } = of;
  return [
    follow(standard, {
      resource: "gatewayclasses",
      versions: ["v1"],
      project: viewClass,
      onChange: (key, view) => registry.setClass(key, view?.controller, view?.namespace),
    }),
    follow(standard, {
      resource: "gateways",
      versions: ["v1"],
      project: (raw) => viewGateway(raw, { clusterDomain }),
      limit: limit.ofKind<GatewayView>("Gateway ", pickListeners),
      onChange: (key, view) => registry.setGateway(key, view),
    }),
    ...SETS.map(([kind, resource, version]) =>
      follow(SET_GROUPS[kind] === EXPERIMENTAL_GROUP ? experimental : standard, {
        resource,
        versions: [version],
        project: (raw) => viewListenerSet(raw, kind),
        limit: limit.ofKind<ListenerSetView>(`${kind} `, pickListeners),
        onChange: (key, view) => registry.setListenerSet(key, view, kind),
      }),
    ),
    ...ROUTES.map(([kind, resource, versions]) =>
      follow(standard, {
        resource,
        versions,
        project: (raw) => viewRoute(kind, raw),
        limit: limit.ofKind(`${kind} `, pickHostnames),
        onChange: (key, view) => registry.setRoute(`${kind} ${key}`, view),
      }),
    ),
  ];
}

const pickHostnames: PickNames<RouteView> = (view, keeps) => ({ ...view, hostnames: view.hostnames.filter(keeps) });

function pickListeners<V extends GatewayView | ListenerSetView>(view: V, keeps: (name: string) => boolean): V {
  return { ...view, listeners: view.listeners.filter(({ hostname }) => keeps(hostname ?? "")) };
}

const viewClass = ({ spec }: Raw) => {
  const { controllerName, parametersRef } = mapOf(spec);
  return { controller: textOf(controllerName), namespace: textOf(mapOf(parametersRef).namespace) };
};
