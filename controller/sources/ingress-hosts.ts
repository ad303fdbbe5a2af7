import { isDeepStrictEqual } from "node:util";
import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { isIngressNginx, type NginxNames, nginxClaims, nginxNames } from "./ingress-nginx-names.ts";
import { KindLimit, type PickNames } from "./kind-limit.ts";
import {
  copied,
  ignoredBy,
  listOf,
  mapOf,
  type ObjectOrigin,
  originOf,
  type Raw,
  textOf,
  textsOf,
  withChoice,
} from "./raw-object.ts";
import type { ApiResource, RoutingHints, Source, SourceState, View } from "./types.ts";

/** The API group of Ingresses and IngressClasses. */
const INGRESS_GROUP = "networking.k8s.io";

const INGRESSES: ApiResource = { group: INGRESS_GROUP, version: "v1", resource: "ingresses", kind: "Ingress" };

/** The projection of an Ingress (networking.k8s.io/v1). */
export interface IngressView extends ObjectOrigin {
  readonly className: string | undefined;
  /** Every host of `spec.rules` and `spec.tls`, without duplicates. */
  readonly hosts: readonly string[];
  /** The names that annotations of ingress-nginx add to the hosts, if ingress-nginx serves the Ingress. */
  readonly nginx?: NginxNames;
  /** IP addresses and host names of `status.loadBalancer.ingress`. */
  readonly addresses: readonly string[];
}

/** The predecessor of `spec.ingressClassName`; the field wins if both are set (Kubernetes 1.18 release notes). */
const OLD_CLASS_ANNOTATION = "kubernetes.io/ingress.class";

/** Projects an Ingress. A field of another type counts as missing. */
export function viewIngress(raw: Raw): IngressView {
  const spec = mapOf(raw.spec);
  const annotations = mapOf(mapOf(raw.metadata).annotations);
  const rules = listOf(spec.rules).map((rule) => textOf(mapOf(rule).host) ?? "");
  const ofTls = listOf(spec.tls).flatMap((tls) => textsOf(mapOf(tls).hosts));
  // An empty host is a rule for all names.
  const hosts = [...new Set([...rules.filter((host) => host !== ""), ...ofTls])];
  const nginx = nginxNames(annotations, rules, hosts);
  const className = textOf(spec.ingressClassName) ?? textOf(annotations[OLD_CLASS_ANNOTATION]);
  return {
    ...originOf("Ingress", raw, { namespace: "default" }),
    className: className && copied(className),
    hosts,
    ...(nginx !== undefined && { nginx }),
    addresses: loadBalancerOf(raw).flatMap(({ ip, hostname }) => textOf(ip) ?? textOf(hostname) ?? []),
  };
}

/** The entries of `status.loadBalancer.ingress` of an Ingress or a Service. */
export function loadBalancerOf(raw: Raw): readonly Raw[] {
  return listOf(mapOf(mapOf(raw.status).loadBalancer).ingress).map(mapOf);
}

/** Facts about the IngressClasses of a cluster. */
export interface IngressClasses {
  /** Used when an Ingress names no class. */
  readonly defaultClass: string | undefined;
  /** `spec.controller` of a class. */
  controllerOf?(className: string): string | undefined;
}

/** The claims of an Ingress. */
export function claimsOfIngress(view: IngressView, classes: IngressClasses): View[] {
  const className = view.className ?? classes.defaultClass;
  const controller = className === undefined ? undefined : classes.controllerOf?.(className);
  const hints: RoutingHints = {
    className,
    ...(controller !== undefined && { controller }),
    addresses: view.addresses,
    admitted: view.addresses.length > 0,
  };
  const { ref: from, created, nginx } = view;
  const common = { from, created, hints: view.ignored ? ignoredBy(from.kind) : withChoice(hints, view) };
  const claims = view.hosts.map((hostname) => ({ hostname, ...common }));
  if (nginx === undefined || !isIngressNginx(className, controller)) return claims;
  return [...claims, ...nginxClaims(view, nginx, common.hints)];
}

/** Marks an IngressClass as the cluster's default. */
const DEFAULT_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class";

interface ClassView {
  readonly isDefault: boolean;
  readonly controller: string | undefined;
}

function viewClass(raw: Raw): ClassView {
  const { annotations } = mapOf(raw.metadata);
  return {
    isDefault: mapOf(annotations)[DEFAULT_CLASS_ANNOTATION] === "true",
    controller: textOf(mapOf(raw.spec).controller),
  };
}

const pick: PickNames<IngressView> = ({ nginx, ...view }, keeps) => ({
  ...view,
  hosts: view.hosts.filter(keeps),
  ...(nginx && { nginx: { ...nginx, names: nginx.names.filter(keeps) } }),
});

/** Ingresses and IngressClasses of a cluster, through the API server. */
export function ingressSource(deps: {
  readonly client: KubeClient;
  readonly budget: ClaimBudget;
  readonly log: Logger;
}): Source {
  const { client, budget, log } = deps;
  let ingresses: Informer<IngressView> | undefined;
  let classes: Informer<ClassView> | undefined;
  let defaultClass: string | undefined;

  const start: Source["start"] = (sink, onSynced) => {
    const limit = new KindLimit<IngressView>({ budget, prefix: "", pick, sink });
    const controllerOf = (name: string) => classes?.objects().get(name)?.controller;
    const emit = (key: string, view: IngressView | undefined) => {
      if (classes?.state.synced !== true) return;
      limit.report(key, view === undefined ? [] : claimsOfIngress(view, { defaultClass, controllerOf }));
    };
    ingresses = limit.watch<Raw>({
      client,
      path: resourcePath(INGRESSES),
      project: (raw) => {
        const view = viewIngress(raw);
        // Nothing is kept of an Ingress that claims nothing.
        return view.hosts.length > 0 || view.nginx !== undefined ? view : undefined;
      },
      onChange: ({ key, after }) => {
        if (after === undefined) limit.leave(key);
        emit(key, after);
      },
      onSynced: () => {
        if (classes?.state.synced) onSynced();
      },
      log,
    });
    classes = watchObjects<ClassView, Raw>({
      client,
      path: `/apis/${INGRESS_GROUP}/v1/ingressclasses`,
      project: viewClass,
      onChange: ({ key, before, after }) => {
        const former = defaultClass;
        defaultClass = defaultAmong(classes?.objects() ?? new Map());
        if (isDeepStrictEqual(before, after)) return;
        // The default class decides about the Ingresses without a class.
        const isOfDefault = former !== defaultClass || defaultClass === key;
        for (const [ingress, view] of ingresses?.objects() ?? [])
          if (view.className === key || (view.className === undefined && isOfDefault)) emit(ingress, view);
      },
      onSynced: () => {
        // Ingresses that were listed before the classes are reported only now.
        for (const [key, view] of ingresses?.objects() ?? []) emit(key, view);
        if (ingresses?.state.synced) onSynced();
      },
      log,
    });
  };

  return {
    start,
    state: () => [informerState("ingresses", ingresses), informerState("ingressclasses", classes)],
    resourceOf: () => INGRESSES,
    stop: async () => {
      await Promise.all([ingresses?.stop(), classes?.stop()]);
    },
  };
}

/**
 * If there are several defaults, the first one by name is used, because that does not depend on the order of events.
 */
function defaultAmong(classes: ReadonlyMap<string, ClassView>): string | undefined {
  return [...classes]
    .filter(([, { isDefault }]) => isDefault)
    .map(([name]) => name)
    .sort()[0];
}

/** Converts the state of an informer to the state of a source. */
export function informerState(name: string, informer: Informer<unknown> | undefined): SourceState {
  if (informer === undefined) return { name, synced: false, problems: [] };
  const { synced, problem, inactiveMs } = informer.state;
  return { name, synced, inactiveMs, problems: problem === undefined ? [] : [{ place: name, ...problem }] };
}
