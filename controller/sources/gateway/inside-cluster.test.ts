import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gatewayObject, gatewayWorld, HTTP, INFRA, routeObject } from "#test/fakes/gateway-objects.ts";
import { viewGateway, viewListenerSet, viewRoute } from "./view.ts";

const CODE = "gateway-inside-cluster";

function codeOf(addresses: readonly string[], clusterDomain?: string, annotations: object = {}) {
  const conditions = [{ type: "Accepted", status: "True" }];
  const status = { conditions, addresses: addresses.map((value) => ({ type: "Hostname", value })) };
  const { metadata, ...rest } = gatewayObject("gw", [{ hostname: "a.com" }], { status });
  const { hints } = viewGateway({ ...rest, metadata: { ...(metadata as object), annotations } }, { clusterDomain });
  return hints.inside?.code ?? "ingress";
}

describe("a Gateway whose only addresses are names of Services", () => {
  for (const [address, domain, expected] of [
    ["cnn-egress-gateway-istio.default.svc.cluster.local", undefined, CODE],
    ["gw.infra.svc", undefined, CODE],
    ["GW.Infra.SVC.cluster.local.", undefined, CODE],
    ["gw.infra.svc.cozy.local", "cozy.local", CODE],
    ["gw.infra.svc.cozy.local", undefined, "ingress"],
    ["gw.infra.svc.example.com", "cluster.local", "ingress"],
    ["lb.example.com", undefined, "ingress"],
    ["svc", undefined, "ingress"],
    ["203.0.113.9", undefined, "ingress"],
  ] as const) {
    it(`${address}, domain ${domain ?? "not known"}: ${expected}`, () => {
      assert.equal(codeOf([address], domain), expected);
    });
  }

  it("is ingress if it also has another address, or no address yet", () => {
    assert.equal(codeOf(["gw.infra.svc", "203.0.113.9"]), "ingress");
    assert.equal(codeOf([]), "ingress");
  });
});

describe("a Gateway that asks Istio for a type of Service", () => {
  for (const [type, expected] of [
    ["ClusterIP", CODE],
    ["LoadBalancer", "ingress"],
    ["NodePort", "ingress"],
  ]) {
    it(`${type}: ${expected}`, () => {
      assert.equal(codeOf([], undefined, { "networking.istio.io/service-type": type }), expected);
    });
  }
});

it("a Gateway, its routes and its ListenerSets have the reason as their decision", () => {
  const conditions = [{ type: "Accepted", status: "True" }];
  const status = { conditions, addresses: [{ type: "Hostname", value: "gw.infra.svc" }] };
  const gateway = viewGateway(gatewayObject("gw", [{ hostname: "*.a.com" }], { status }, { from: "All" }));
  const set = viewListenerSet({
    metadata: { namespace: INFRA, name: "set" },
    spec: { parentRef: { name: "gw" }, listeners: [{ name: "b", port: 80, protocol: "HTTP", hostname: "b.com" }] },
    status: { conditions },
  });
  const world = gatewayWorld();
  const web = viewRoute(HTTP, routeObject("web", ["gw"], ["www.a.com"]));
  const claims = [gateway, web, set].map((view) => world.put(view)).flatMap((object) => world.claims(object));
  assert.deepEqual(
    claims.map(({ hostname, hints }) => [hostname, "inside" in hints && hints.inside?.code]),
    ["*.a.com", "www.a.com", "b.com"].map((name) => [name, CODE]),
  );
});
