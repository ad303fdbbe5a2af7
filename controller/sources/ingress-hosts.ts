import { IGNORE_KEY } from "#hostmap/metadata-keys.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { isIngressNginx, type NginxNames, nginxClaims, nginxNames } from "./ingress-nginx-names.ts";
import { type PickNames, SourceLimit } from "./limited-objects.ts";
import { chosenBy, copied, ignoredBy, type ObjectOrigin, withChoice } from "./raw-object.ts";
import type { ApiResource, RoutingHints, Source, SourceState, View, ViewSink } from "./types.ts";

/** The API group of Ingresses and IngressClasses. */
export const INGRESS_GROUP = "networking.k8s.io";

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

/** The fields of an Ingress that are read. In a dump or a file, any field may be missing or have another type. */
export interface RawIngress {
  readonly metadata?: {
    readonly name?: string;
    readonly namespace?: string;
    readonly creationTimestamp?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: {
    readonly ingressClassName?: string;
    readonly rules?: ReadonlyArray<{ readonly host?: string } | null> | null;
    readonly tls?: ReadonlyArray<{ readonly hosts?: readonly string[] | null } | null> | null;
  };
  readonly status?: { readonly loadBalancer?: RawLoadBalancer | null } | null;
}

/** A load balancer status of an Ingress or a Service. */
interface RawLoadBalancer {
  readonly ingress?: ReadonlyArray<{ readonly ip?: string; readonly hostname?: string } | null> | null;
}

/** The predecessor of `spec.ingressClassName`; the field wins if both are set (Kubernetes 1.18 release notes). */
const OLD_CLASS_ANNOTATION = "kubernetes.io/ingress.class";

/** Projects an Ingress. A field of another type counts as missing. */
export function viewIngress(raw: RawIngress): IngressView {
  const { metadata, spec, status } = raw;
  const ref = { kind: "Ingress", namespace: metadata?.namespace ?? "default", name: metadata?.name ?? "" };
  const hosts = hostsOf(spec);
  const ruleHosts = list(spec?.rules).map((rule) => text(rule?.host) ?? "");
  const nginx = nginxNames(metadata?.annotations ?? {}, ruleHosts, hosts);
  const className = text(spec?.ingressClassName) ?? text(metadata?.annotations?.[OLD_CLASS_ANNOTATION]);
  return {
    ref,
    created: text(metadata?.creationTimestamp) ?? "",
    className: className && copied(className),
    hosts,
    ...(nginx !== undefined && { nginx }),
    addresses: addressesOf(status?.loadBalancer),
    ignored: metadata?.annotations?.[IGNORE_KEY] === "true",
    ...chosenBy(metadata?.annotations ?? {}, ref),
  };
}

/** Skips an empty host (a rule for all names). */
function hostsOf(spec: RawIngress["spec"]): string[] {
  const ofRules = list(spec?.rules).map((rule) => rule?.host);
  const ofTls = list(spec?.tls).flatMap((tls) => list(tls?.hosts));
  const hosts = [...ofRules, ...ofTls].filter((host): host is string => text(host) !== undefined && host !== "");
  return Array.from(new Set(hosts));
}

/** The addresses of a load balancer status, in the order written. */
function addressesOf(loadBalancer: RawLoadBalancer | null | undefined): string[] {
  const addresses = list(loadBalancer?.ingress).map((entry) => text(entry?.ip) ?? text(entry?.hostname) ?? "");
  return addresses.filter((address) => address !== "");
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function list<T>(value: readonly T[] | null | undefined): readonly T[] {
  return Array.isArray(value) ? value : [];
}

/** Facts about the IngressClasses of a cluster. */
export interface IngressClasses {
  /** Used when an Ingress names no class. */
  readonly defaultClass: string | undefined;
  /** `spec.controller` of a class. */
  controllerOf?(className: string): string | undefined;
  /** The release that a class belongs to. */
  instanceOf?(className: string): string | undefined;
}

/** The claims of an Ingress. */
export function claimsOfIngress(view: IngressView, classes: IngressClasses): View[] {
  const className = view.className ?? classes.defaultClass;
  const controller = className === undefined ? undefined : classes.controllerOf?.(className);
  const instance = className === undefined ? undefined : classes.instanceOf?.(className);
  const hints: RoutingHints = {
    className,
    ...(controller !== undefined && { controller }),
    ...(instance !== undefined && { instance }),
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
/** The release of a chart, on all its objects (https://helm.sh/docs/chart_best_practices/labels/). */
export const INSTANCE_LABEL = "app.kubernetes.io/instance";

interface RawIngressClass {
  readonly metadata: {
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec?: { readonly controller?: string };
}

interface ClassView {
  readonly isDefault: boolean;
  readonly controller: string | undefined;
  readonly instance: string | undefined;
}

function viewClass({ metadata, spec }: RawIngressClass): ClassView {
  return {
    isDefault: metadata.annotations?.[DEFAULT_CLASS_ANNOTATION] === "true",
    controller: text(spec?.controller),
    instance: text(metadata.labels?.[INSTANCE_LABEL]),
  };
}

/** Undefined if the Ingress claims nothing: nothing is kept of it. */
function withNames(view: IngressView): IngressView | undefined {
  return view.hosts.length > 0 || view.nginx !== undefined ? view : undefined;
}

const pickNames: PickNames<IngressView> = ({ nginx, ...view }, keeps) => ({
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
  let informers: { readonly ingresses: Informer<IngressView>; readonly classes: Informer<ClassView> } | undefined;

  function begin(sink: ViewSink, onSynced: () => void) {
    const limit = new SourceLimit(budget, sink);
    const limited = limit.ofKind("", pickNames);
    let defaultClass: string | undefined;
    let classesKnown = false;
    const emit = (key: string, view: IngressView | undefined) => {
      if (!classesKnown) return;
      const controllerOf = (name: string) => classes.objects().get(name)?.controller;
      const instanceOf = (name: string) => classes.objects().get(name)?.instance;
      limit.sink(key, view === undefined ? [] : claimsOfIngress(view, { defaultClass, controllerOf, instanceOf }));
    };
    const ingresses = limited.watch({
      client,
      path: resourcePath(INGRESSES),
      pathIn: (namespace) => resourcePath({ ...INGRESSES, namespace }),
      project: (raw) => withNames(viewIngress(raw as RawIngress)),
      onChange: ({ key, after }) => {
        if (after === undefined) limited.leave(key);
        emit(key, after);
      },
      onSynced: () => {
        if (classesKnown) onSynced();
      },
      log,
    });
    const classes = watchObjects<ClassView, RawIngressClass>({
      client,
      path: `/apis/${INGRESS_GROUP}/v1/ingressclasses`,
      project: viewClass,
      onChange: ({ key, before, after }) => {
        const isSame = before?.controller === after?.controller && before?.instance === after?.instance;
        if (classesKnown) redecide(isSame ? undefined : key);
      },
      onSynced: () => {
        classesKnown = true;
        defaultClass = defaultAmong(classes.objects());
        // Ingresses that were listed before the classes are reported only now.
        for (const [key, view] of ingresses.objects()) emit(key, view);
        if (ingresses.state.synced) onSynced();
      },
      log,
    });

    /** Reports Ingresses again after a change of a class. `moved` is a class with another controller or release. */
    function redecide(moved: string | undefined): void {
      const changed = new Set<string | undefined>(moved === undefined ? [] : [moved]);
      const next = defaultAmong(classes.objects());
      // A change of the default class, or of its controller, affects the Ingresses without a class.
      if (next !== defaultClass || (next !== undefined && next === moved)) changed.add(undefined);
      defaultClass = next;
      for (const [key, view] of ingresses.objects()) if (changed.has(view.className)) emit(key, view);
    }
    return { ingresses, classes };
  }

  return {
    start: (sink, onSynced) => {
      informers = begin(sink, onSynced);
    },
    state: () => [
      informerState("ingresses", informers?.ingresses),
      informerState("ingressclasses", informers?.classes),
    ],
    resourceOf: () => INGRESSES,
    stop: async () => {
      await Promise.all([informers?.ingresses.stop(), informers?.classes.stop()]);
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
