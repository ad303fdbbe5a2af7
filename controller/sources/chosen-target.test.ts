import assert from "node:assert/strict";
import { test } from "node:test";
import {
  BACKEND,
  gatewayObject,
  gatewayWorld,
  INFRA,
  listenerSetObject,
  routeObject,
} from "#test/fakes/gateway-objects.ts";
import { customReader, routeClaims, serviceClaims } from "./custom/claims.ts";
import { viewGateway, viewListenerSet, viewRoute } from "./gateway/view.ts";
import { claimsOfIngress, viewIngress } from "./ingress-hosts.ts";
import type { Raw } from "./raw-object.ts";
import type { View } from "./types.ts";

// Whose choice by `switchback.dev/target` counts for a name, in each source. That of a VirtualService is in
// istio.test.ts.

const choose = (target: string) => ({ "switchback.dev/target": target });
const shown = (claims: readonly View[]) =>
  claims.map(({ hostname, hints }) => {
    if ("code" in hints) return `${hostname}: ${hints.code}`;
    return `${hostname}: ${hints.chosen === undefined ? "-" : `${hints.chosen.target} of ${hints.chosen.namespace}`}`;
  });

const spec = { rules: [{ host: "a.com" }], host: "a.com", type: "LoadBalancer" };
const status = { ingress: [{ conditions: [{ type: "Admitted", status: "True" }] }] };
const PATHS = { hostnames: "$.spec.host", syntax: "name", classes: [] } as const;
const READERS: Readonly<Record<string, (raw: Raw) => readonly View[]>> = {
  Ingress: (raw) => claimsOfIngress(viewIngress(raw), "nginx"),
  Route: (raw) => routeClaims(raw, "Route"),
  Service: serviceClaims,
  Widget: (raw) => customReader(PATHS)(raw, "Widget"),
};
for (const [kind, read] of Object.entries(READERS)) {
  test(`an object of kind ${kind} chooses for its names, unless it is ignored`, () => {
    const outcome = (annotations: Raw) => {
      const all = { "external-dns.alpha.kubernetes.io/hostname": "a.com", ...annotations };
      return shown(read({ metadata: { namespace: "shop", name: "web", annotations: all }, spec, status }));
    };
    assert.deepEqual(outcome({}), ["a.com: -"]);
    assert.deepEqual(outcome(choose("vip")), ["a.com: vip of shop"]);
    assert.deepEqual(outcome(choose("")), ["a.com:  of shop"], "an empty text is no target, and is reported");
    assert.deepEqual(outcome(choose("x".repeat(100_000))), [`a.com: ${"x".repeat(64)} of shop`]);
    assert.deepEqual(outcome({ ...choose("vip"), "switchback.dev/ignore": "true" }), ["a.com: ignored"]);
  });
}

test("the choices of a ListenerSet and of a route override that of what they attach to, in this order", () => {
  const { put, claims } = gatewayWorld();
  const of = (object: string) => shown(claims(object));
  const all = { from: "All" };
  const listeners = ["one", "two"].map((name, index) => ({ name, hostname: "*.a.com", port: 80 + index, ...all }));
  const metadata = { namespace: INFRA, name: "gw", annotations: choose("edge") };
  const gateway = put(viewGateway(gatewayObject("gw", listeners, { metadata }, all)));
  const set = (annotations = {}) =>
    put(viewListenerSet(listenerSetObject("set", "gw", listeners, { namespace: BACKEND, annotations })));
  const parts = { group: "gateway.networking.k8s.io", kind: "ListenerSet", name: "set", namespace: BACKEND };
  const route = (parents: readonly Raw[], annotations = {}) =>
    of(put(viewRoute(routeObject("web", parents, ["www.a.com"], { namespace: BACKEND, annotations }))));
  const atGateway = ["one", "two"].map((sectionName) => ({ name: "gw", namespace: INFRA, sectionName }));
  assert.deepEqual(of(gateway), [`*.a.com: edge of ${INFRA}`]);
  assert.deepEqual(route(atGateway), [`www.a.com: edge of ${INFRA}`], "two listeners of one Gateway make one claim");
  assert.deepEqual(route(atGateway, choose("vip")), [`www.a.com: vip of ${BACKEND}`]);
  assert.deepEqual(of(gateway), [`*.a.com: edge of ${INFRA}`], "a route chooses for itself alone");
  assert.deepEqual(of(set()), [`*.a.com: edge of ${INFRA}`]);
  assert.deepEqual(route([parts]), [`www.a.com: edge of ${INFRA}`]);
  assert.deepEqual(of(set(choose("own"))), [`*.a.com: own of ${BACKEND}`]);
  assert.deepEqual(route([parts]), [`www.a.com: own of ${BACKEND}`]);
  assert.deepEqual(route([parts], choose("vip")), [`www.a.com: vip of ${BACKEND}`]);
});
