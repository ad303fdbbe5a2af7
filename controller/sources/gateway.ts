import { show } from "#hostmap/hostnames.ts";
import type { Config } from "#lib/config/schema.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type GroupWatch, watchGroup } from "./api-discovery.ts";
import { GatewayRegistry } from "./gateway/gateway-registry.ts";
import type { Labels } from "./gateway/selector.ts";
import {
  EXPERIMENTAL_GROUP,
  GATEWAY_GROUP,
  type RouteKind,
  SET_GROUPS,
  type SetKind,
  viewGateway,
  viewListenerSet,
  viewRoute,
} from "./gateway/view.ts";
import { informerState } from "./ingress-hosts.ts";
import { OptionalInformer, type OptionalKind, resourceOfKind } from "./optional-informer.ts";
import { mapOf, type Raw, textMapOf, textOf } from "./raw-object.ts";
import type { UnresolvedClaimSink, UnresolvedSource } from "./types.ts";

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

/**
 * The GatewayClasses, Gateways, ListenerSets and routes of a cluster that may have Gateway API. Namespaces are read
 * only if one of these objects selects namespaces by their labels.
 */
export function gatewaySource(deps: {
  readonly client: KubeClient;
  readonly config: Config["sources"];
  readonly log: Logger;
  readonly clusterDomain?: string | undefined;
}): UnresolvedSource {
  const { client, config, log, clusterDomain } = deps;
  const groupOf = (group: string) => ({
    group,
    discovery: watchGroup({ client, group, everyMs: config.discoverySeconds * 1000 }),
  });
  const [standard, experimental] = [groupOf(GATEWAY_GROUP), groupOf(EXPERIMENTAL_GROUP)];
  const removedMs = config.removedKindSeconds * 1000;
  const kinds: OptionalKind[] = [];
  let namespaces: Informer<Labels> | undefined;

  function begin(sink: UnresolvedClaimSink, onSynced: () => void): void {
    const onError = (key: string, error: unknown) =>
      log.error({ code: "object-failed", object: show(key) }, describeError(error));
    const registry = new GatewayRegistry({ ...config.gateway, onError }, sink);
    let open = false;
    const openWhenKnown = () => {
      if (open || kinds.some(({ known }) => !known)) return;
      if (registry.selects && namespaces?.state.synced !== true) return;
      open = true;
      registry.open();
      onSynced();
    };
    const follow: Follow = (of, resource, versions, project, onChange) =>
      new OptionalInformer({
        ...of,
        client,
        removedMs,
        log,
        onKnown: openWhenKnown,
        resource,
        versions,
        project,
        onChange: (key, view) => {
          onChange(key, view);
          if (registry.selects) namespaces ??= watchNamespaces({ client, log }, registry, openWhenKnown);
        },
      });
    kinds.push(...gatewayKinds(follow, registry, { standard, experimental, clusterDomain }));
  }

  return {
    start: begin,
    state: () => [
      ...kinds.map(({ state }) => state),
      ...(namespaces === undefined ? [] : [informerState("namespaces", namespaces)]),
    ],
    resourceOf: (object) => resourceOfKind(kinds, object),
    stop: async () => {
      const watches = [standard.discovery, experimental.discovery, namespaces, ...kinds];
      await Promise.all(watches.map((watch) => watch?.stop()));
    },
  };
}

/** An API group, and what it serves. */
interface ServedGroup {
  readonly group: string;
  readonly discovery: GroupWatch;
}

/** Follows the objects of one kind. */
type Follow = <T>(
  of: ServedGroup,
  resource: string,
  versions: readonly string[],
  project: (raw: Raw) => T,
  onChange: (key: string, view: T | undefined) => void,
) => OptionalKind;

/** Passes the objects of all kinds to the registry. */
function gatewayKinds(
  follow: Follow,
  registry: GatewayRegistry,
  of: {
    readonly standard: ServedGroup;
    readonly experimental: ServedGroup;
    readonly clusterDomain: string | undefined;
  },
): OptionalKind[] {
  const { standard, experimental, clusterDomain } = of;
  const projectGateway = (raw: Raw) => viewGateway(raw, { clusterDomain });
  return [
    follow(standard, "gatewayclasses", ["v1"], viewClass, (key, view) =>
      registry.setClass(key, view?.controller, view?.namespace),
    ),
    follow(standard, "gateways", ["v1"], projectGateway, (key, view) => registry.setGateway(key, view)),
    ...SETS.map(([kind, resource, version]) => {
      const project = (raw: Raw) => viewListenerSet(raw, undefined, kind);
      const group = SET_GROUPS[kind] === EXPERIMENTAL_GROUP ? experimental : standard;
      return follow(group, resource, [version], project, (key, view) => registry.setListenerSet(key, view, kind));
    }),
    ...ROUTES.map(([kind, resource, versions]) => {
      const project = (raw: Raw) => viewRoute(kind, raw);
      return follow(standard, resource, versions, project, (key, view) => registry.setRoute(`${kind} ${key}`, view));
    }),
  ];
}

const viewClass = ({ spec }: Raw) => {
  const { controllerName, parametersRef } = mapOf(spec);
  return { controller: textOf(controllerName), namespace: textOf(mapOf(parametersRef).namespace) };
};

/** Passes the labels of the namespaces, and their changes, to the registry. */
function watchNamespaces(
  { client, log }: { readonly client: KubeClient; readonly log: Logger },
  registry: GatewayRegistry,
  onSynced: () => void,
): Informer<Labels> {
  const informer = watchObjects<Labels, Raw>({
    client,
    path: "/api/v1/namespaces",
    metadataOnly: true,
    project: (raw) => textMapOf(mapOf(raw.metadata).labels),
    onChange: ({ key }) => registry.namespaceChanged(key),
    onSynced: () => {
      registry.setNamespaces(informer.objects());
      onSynced();
    },
    log,
  });
  return informer;
}
