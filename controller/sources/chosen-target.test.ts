import assert from "node:assert/strict";
import { test } from "node:test";
import {
  BACKEND,
  gatewayObject,
  gatewayWorld,
  HTTP,
  INFRA,
  listenerSetObject,
  routeObject,
} from "#test/fakes/gateway-objects.ts";
import { customReader } from "./custom/claims.ts";
import { serviceClaims } from "./custom/service-claims.ts";
import { viewGateway, viewListenerSet, viewRoute } from "./gateway/view.ts";
import { claimsOfIngress, viewIngress } from "./ingress-hosts.ts";
import { istioClaims } from "./istio/claims.ts";
import * as istio from "./istio/view.ts";
import type { View } from "./types.ts";

// Tests whose choice by `switchback.dev/target` counts for a name, in each source.

const KEY = "switchback.dev/target";
const choose = (target: string) => ({ [KEY]: target });
const chosenOf = (claims: readonly View[]) =>
  claims.map(({ hostname, hints }) => {
    if ("code" in hints) return `${hostname}: ${hints.code}`;
    return `${hostname}: ${hints.chosen === undefined ? "-" : `${hints.chosen.target} of ${hints.chosen.namespace}`}`;
  });

test("an Ingress chooses for its hosts, unless it is ignored", () => {
  const claims = (annotations: Record<string, string>) => {
    const spec = { rules: [{ host: "a.com" }] };
    const raw = { metadata: { namespace: "shop", name: "web", annotations }, spec };
    return chosenOf(claimsOfIngress(viewIngress(raw), { defaultClass: "nginx" }));
  };
  assert.deepEqual(claims({}), ["a.com: -"]);
  assert.deepEqual(claims(choose("vip")), ["a.com: vip of shop"]);
  assert.deepEqual(claims(choose("")), ["a.com:  of shop"], "an empty text is no target, and is reported");
  assert.deepEqual(claims(choose("x".repeat(100_000))), [`a.com: ${"x".repeat(64)} of shop`]);
  assert.deepEqual(claims({ ...choose("vip"), "switchback.dev/ignore": "true" }), ["a.com: ignored"]);
  const aliased = claims({ ...choose("vip"), "nginx.ingress.kubernetes.io/server-alias": "b.com" });
  assert.deepEqual(aliased, ["a.com: vip of shop", "b.com: vip of shop"]);
});

function gatewayApi() {
  const { put, claims } = gatewayWorld();
  return { put, of: (object: string) => chosenOf(claims(object)) };
}

const ALL = { from: "All" };
const LISTENERS = [
  { name: "one", hostname: "*.a.com", ...ALL },
  { name: "two", hostname: "*.a.com", port: 443, protocol: "HTTPS", ...ALL },
];

test("a route's choice overrides its Gateway's, and each choice needs the permission of its own namespace", () => {
  const { put, of } = gatewayApi();
  const metadata = { namespace: INFRA, name: "gw", annotations: choose("edge") };
  put(viewGateway(gatewayObject("gw", LISTENERS, { metadata }, ALL)));
  const parents = ["one", "two"].map((sectionName) => ({ name: "gw", namespace: INFRA, sectionName }));
  const route = (annotations = {}) => {
    const raw = routeObject("web", parents, ["www.a.com"], { namespace: BACKEND, annotations });
    return of(put(viewRoute(HTTP, raw)));
  };
  assert.deepEqual(of(`Gateway ${INFRA}/gw`), [`*.a.com: edge of ${INFRA}`]);
  assert.deepEqual(route(), [`www.a.com: edge of ${INFRA}`], "two listeners of one Gateway make one claim");
  assert.deepEqual(route(choose("vip")), [`www.a.com: vip of ${BACKEND}`]);
  assert.deepEqual(of(`Gateway ${INFRA}/gw`), [`*.a.com: edge of ${INFRA}`], "a route chooses for itself alone");
  assert.deepEqual(route(), [`www.a.com: edge of ${INFRA}`], "the annotation is gone");
});

test("a ListenerSet's choice overrides its Gateway's, also for its routes", () => {
  const { put, of } = gatewayApi();
  const metadata = { namespace: INFRA, name: "gw", annotations: choose("edge") };
  put(viewGateway(gatewayObject("gw", [], { metadata }, ALL)));
  const set = (annotations = {}) => {
    const raw = listenerSetObject("set", "gw", LISTENERS, { namespace: BACKEND, annotations });
    put(viewListenerSet(raw));
  };
  const parent = { group: "gateway.networking.k8s.io", kind: "ListenerSet", name: "set", namespace: BACKEND };
  const web = put(viewRoute(HTTP, routeObject("web", [parent], ["www.a.com"], { namespace: BACKEND })));
  set();
  assert.deepEqual(of(web), [`www.a.com: edge of ${INFRA}`]);
  set(choose("vip"));
  assert.deepEqual(of(web), [`www.a.com: vip of ${BACKEND}`]);
  assert.deepEqual(of(`ListenerSet ${BACKEND}/set`), [`*.a.com: vip of ${BACKEND}`]);
});

test("the choice of an Istio VirtualService overrides its Gateway's", () => {
  const object = (namespace: string, name: string, spec: object, annotations = {}) => ({
    metadata: { namespace, name, annotations },
    spec,
  });
  const servers = [{ port: { number: 443 }, hosts: ["*.a.com"] }];
  const gateway = { selector: { istio: "ingressgateway" }, servers };
  const service = (annotations = {}) => {
    const spec = { hosts: ["www.a.com"], gateways: ["infra/gw"] };
    const objects = new Map<string, istio.GatewayView | istio.VirtualServiceView>([
      ["Gateway infra/gw", istio.viewGateway(object("infra", "gw", gateway, choose("edge")))],
      ["VirtualService shop/web", istio.viewVirtualService(object("shop", "web", spec, annotations))],
    ]);
    return chosenOf(new Map(istioClaims(objects, { gateways: true })).get("VirtualService shop/web")?.() ?? []);
  };
  assert.deepEqual(service(), ["www.a.com: edge of infra"]);
  assert.deepEqual(service(choose("vip")), ["www.a.com: vip of shop"]);
});

test("objects of other kinds and Services choose too", () => {
  const metadata = { namespace: "shop", name: "web", annotations: choose("vip") };
  const paths = { hostnames: "$.spec.host", syntax: "name", classes: [], className: undefined } as const;
  assert.deepEqual(chosenOf(customReader(paths)({ metadata, spec: { host: "a.com" } }, "Thing")), [
    "a.com: vip of shop",
  ]);
  const annotations = { ...choose("vip"), "external-dns.alpha.kubernetes.io/hostname": "b.com" };
  const raw = { metadata: { ...metadata, annotations }, spec: { type: "LoadBalancer" } };
  assert.deepEqual(chosenOf(serviceClaims(raw)), ["b.com: vip of shop"]);
});
