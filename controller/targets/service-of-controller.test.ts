import assert from "node:assert/strict";
import { test } from "node:test";
import type { RoutingHints } from "../sources/types.ts";
import { AddressTable, keyOf } from "./address-table.ts";
import { isReached, serviceOfClass } from "./service-of-controller.ts";
import { viewService } from "./service-view.ts";

// Which Service the class of an object leads to, and what a tenant with copied labels can and cannot change.

const NGINX = { "app.kubernetes.io/name": "ingress-nginx" };
const INSTANCE = "app.kubernetes.io/instance";
const [OLDER, REAL, LATER] = ["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"];

interface Parts {
  readonly labels?: Readonly<Record<string, string>>;
  readonly created?: string;
  readonly type?: string;
  readonly ip?: string;
  readonly external?: string;
  readonly clusterIP?: string;
  readonly map?: string;
}

function service(key: string, parts: Parts = {}) {
  const { labels = NGINX, created = REAL, type = "LoadBalancer", ip = "203.0.113.1", external, clusterIP } = parts;
  const [namespace = "", name = ""] = key.split("/");
  const raw = {
    metadata: {
      namespace,
      name,
      creationTimestamp: created,
      labels,
      annotations: parts.map === undefined ? {} : { "switchback.dev/map": parts.map },
    },
    spec: {
      type,
      clusterIPs: [clusterIP ?? "10.96.0.7"],
      ports: [{ port: 443 }],
      ...(external && { externalIPs: [external] }),
    },
    status: { loadBalancer: { ingress: [{ ip }] } },
  };
  return viewService(raw, "v1");
}

type Services = readonly ReturnType<typeof service>[];

/** The Service that the class leads to. `serving`: those that statuses of the class lead to. */
function serviceOf(services: Services, hints: Partial<RoutingHints> = {}, ...serving: string[]) {
  const table = new AddressTable();
  for (const view of services) table.set(keyOf(view), view);
  const all = { className: "nginx", controller: "k8s.io/ingress-nginx", addresses: [], admitted: false, ...hints };
  const isServing = (view: Services[number]) => serving.includes(keyOf(view));
  const found = serviceOfClass(all, table, { isIncumbent: () => false, isServing, isConfigured: () => false });
  if (found === undefined || "code" in found) return found?.code;
  return isReached(found, all, { isServing }) ? keyOf(found) : `${keyOf(found)}?`;
}

const edge = service("edge/nginx");

test("a tenant's labels on a later ClusterIP Service keep no names from the exposed Service", () => {
  const label = (created: string) => service("tenant/any", { type: "ClusterIP", created });
  assert.equal(serviceOf([edge, label(LATER)]), "edge/nginx");
  assert.equal(serviceOf([edge, label(REAL)]), "edge/nginx");
  assert.equal(serviceOf([edge, label(OLDER)]), "several-services", "it may be the controller's own");
  assert.equal(serviceOf([edge, label(OLDER)], {}, "edge/nginx"), "edge/nginx", "statuses lead to the exposed one");
});

test("a tenant's load balancer with copied labels takes no names of a controller without one", () => {
  const own = service("edge/nginx", { type: "ClusterIP" });
  for (const copy of [{ created: LATER }, { created: LATER, map: "always" }, { created: OLDER, map: "always" }]) {
    assert.equal(serviceOf([own, service("tenant/copy", copy)]), "several-services");
  }
});

test("of several load balancers with the labels, the one that statuses lead to counts", () => {
  const copy = service("tenant/copy", { created: OLDER, map: "always" });
  assert.equal(serviceOf([edge, copy]), "several-services");
  assert.equal(serviceOf([edge, copy], {}, "edge/nginx"), "edge/nginx");
  assert.equal(serviceOf([edge, copy], {}, "edge/nginx", "tenant/copy"), "several-services");
});

test("the release of the IngressClass decides between several installations", () => {
  const labels = (instance: string) => ({ ...NGINX, [INSTANCE]: instance });
  const one = service("edge/public", { labels: labels("public"), created: OLDER });
  const other = service("inner/internal", { labels: labels("internal") });
  assert.equal(serviceOf([one, other]), "several-services");
  assert.equal(serviceOf([one, other], { instance: "internal" }), "inner/internal");
  assert.equal(serviceOf([one, other], { instance: "public" }), "edge/public");
  assert.equal(serviceOf([one, other], { instance: "third" }), "several-services");
  // A tenant copies that label, too.
  const copy = service("tenant/copy", { labels: labels("internal"), created: LATER, map: "always" });
  assert.equal(serviceOf([one, other, copy], { instance: "internal" }), "several-services");
  assert.equal(serviceOf([one, other, copy], { instance: "internal" }, "inner/internal"), "inner/internal");
  // The controller's own Service has no such label.
  assert.equal(serviceOf([edge, copy], { instance: "internal" }), "several-services");
});

test("a status with the Service's own ClusterIP confirms it; another IP leads elsewhere", () => {
  const own = service("edge/nginx", { type: "ClusterIP", external: "2001:db8::1", clusterIP: "fd00::7" });
  assert.equal(serviceOf([own], { addresses: ["FD00:0::7"] }), "edge/nginx");
  assert.equal(serviceOf([own], { addresses: ["fd00::8"] }), "edge/nginx?");
  assert.equal(serviceOf([own], { addresses: ["fd00::7", "198.51.100.1"] }), "edge/nginx?");
  // A ClusterIP decides nothing between Services: a tenant may ask for one that became free.
  const copy = service("tenant/copy", { clusterIP: "10.96.0.9", created: LATER });
  assert.equal(serviceOf([own, copy], { addresses: ["10.96.0.9"] }), "several-services");
});

test("a controller's own name leads to the Service by labels only together with its ClusterIP", () => {
  const controller = "k8s.io/ingress-nginx-internal";
  assert.equal(serviceOf([edge], { controller }), "edge/nginx?");
  assert.equal(serviceOf([service("edge/nginx", { map: "always" })], { controller }), "edge/nginx?");
  assert.equal(serviceOf([edge], { controller, addresses: ["lb.example.net"] }), "edge/nginx?");
  assert.equal(serviceOf([edge], { controller, addresses: ["10.96.0.7"] }), "edge/nginx");
});

test("Cozystack's controllers end with the namespace of their Service; a namespace called nginx gains nothing", () => {
  const [root, foo] = [service("tenant-root/root-ingress"), service("tenant-foo/foo-ingress")];
  const of = (controller: string, ...services: Services) => serviceOf(services, { controller });
  assert.equal(of("k8s.io/ingress-nginx-tenant-foo", root, foo), "tenant-foo/foo-ingress?");
  assert.equal(of("k8s.io/ingress-nginx-other", root, foo), "several-services");
  assert.equal(of("k8s.io/ingress-nginx", root, service("nginx/copy")), "several-services");
});

test("merged Gateways get the Service of their class in the namespace of the class's parameters, and no copy", () => {
  const labels = { "app.kubernetes.io/managed-by": "envoy-gateway", "gateway.envoyproxy.io/owning-gatewayclass": "eg" };
  const own = service("envoy-gateway-system/envoy-eg", { labels });
  const copy = service("tenant/copy", { labels, created: OLDER });
  const gateway = { namespace: "shop", name: "shop", classNamespace: "envoy-gateway-system" };
  const of = (services: Services, hints: Partial<RoutingHints> = {}) => {
    const controller = "gateway.envoyproxy.io/gatewayclass-controller";
    return serviceOf(services, { className: "eg", isGatewayClass: true, controller, gateway, ...hints });
  };
  assert.equal(of([own, copy]), "envoy-gateway-system/envoy-eg");
  assert.equal(of([copy]), undefined);
  assert.equal(of([own], { className: "other" }), undefined);
  assert.equal(of([own], { gateway: { namespace: "tenant", name: "gw" } }), undefined, "the class has no parameters");
  assert.equal(of([copy], { gateway: { namespace: "tenant", name: "gw" } }), undefined);
});
