import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import type { RoutingHints } from "../sources/types.ts";
import { TargetDiscovery } from "./discovery.ts";
import { foundName } from "./service-view.ts";

// Tests which Service serves a Gateway of Gateway API, and which Gateways are not ingress.

const SERVICES = "/api/v1/services";
const INSIDE = "gateway-inside-cluster";
const GEP_1762 = "gateway.networking.k8s.io/gateway-name";
const ENVOY_GATEWAY = { "app.kubernetes.io/managed-by": "envoy-gateway" };
const ISTIO = { "gateway.istio.io/managed": "istio.io-gateway-controller" };

interface Parts {
  readonly type?: string;
  readonly ip?: string;
  readonly labels?: object;
  readonly clusterIP?: string;
}

function service(key: string, { type = "LoadBalancer", ip, labels = {}, clusterIP = "10.96.0.7" }: Parts): ApiObject {
  const [namespace, name] = key.split("/");
  return {
    metadata: { namespace, name, creationTimestamp: "2026-01-01T00:00:00Z", labels },
    spec: { type, clusterIPs: [clusterIP], ports: [{ port: 80 }, { port: 443 }] },
    status: { loadBalancer: { ingress: ip === undefined ? [] : [{ ip }] } },
  } as unknown as ApiObject;
}

async function cluster(t: TestContext, settings: object, ...services: readonly ApiObject[]) {
  stopTime(t);
  const api = new MemoryKube();
  for (const each of services) api.set(SERVICES, each);
  const discovery = new TargetDiscovery({ client: api.client, config: parseConfig(settings), log: silentLogger });
  t.after(() => discovery.stop());
  discovery.start(
    () => {},
    () => {},
  );
  await settled();
  return (gateway: string, more: Partial<RoutingHints> = {}) => {
    const [namespace = "", name = ""] = gateway.split("/");
    const own = { className: "any", isGatewayClass: true, addresses: [], admitted: true } as const;
    const found = discovery.resolve({ ...own, gateway: { namespace, name }, ...more });
    return typeof found === "string" ? found : found.code;
  };
}

const NONE = { targets: [] };
const controller = (name: string) => ({ controller: name });

test("the Service of its controller serves a Gateway without a status", async (t) => {
  const traefik = service("edge/traefik", { ip: "203.0.113.1", labels: { "app.kubernetes.io/name": "traefik" } });
  const resolve = await cluster(t, NONE, traefik);
  assert.equal(resolve("infra/gw", controller("traefik.io/gateway-controller")), foundName("edge", "traefik"));
  assert.equal(resolve("infra/gw", controller("konghq.com/kic-gateway-controller")), "no-address");
  assert.equal(resolve("infra/gw", controller("example.com/unknown")), "no-address");
  assert.equal(resolve("infra/gw"), "no-address", "its GatewayClass is not there");
});

test("the default target serves no Gateway of another controller, or of a load balancer outside", async (t) => {
  const target = { name: "edge", upstream: { service: { namespace: "edge", name: "traefik" } } };
  const resolve = await cluster(t, { targets: [target] }, service("edge/traefik", { ip: "203.0.113.1" }));
  assert.equal(resolve("infra/gw", controller("traefik.io/gateway-controller")), "edge");
  for (const other of ["io.cilium/gateway-controller", "networking.gke.io/gateway", "example.com/unknown"]) {
    assert.equal(resolve("infra/gw", controller(other)), "another-controller", other);
  }
});

test("a Service that was made for a Gateway serves no other Gateway, and no Ingress", async (t) => {
  const made = (gateway: string, ip: string) =>
    service(`${gateway}-istio`, { ip, labels: { ...ISTIO, [GEP_1762]: gateway.split("/")[1] } });
  const resolve = await cluster(t, NONE, made("shop/gw", "203.0.113.1"), made("blog/gw", "203.0.113.2"));
  const istio = controller("istio.io/gateway-controller");
  assert.equal(resolve("shop/gw", istio), foundName("shop", "gw-istio"));
  assert.equal(resolve("blog/gw", istio), foundName("blog", "gw-istio"));
  assert.equal(resolve("infra/gw", istio), "no-address", "its Service is not there yet");
  assert.equal(resolve("shop/other", istio), "no-address");
  const ingress = { gateway: undefined, isGatewayClass: undefined } as object;
  assert.equal(resolve("", { ...ingress, controller: "istio.io/ingress-controller" }), "no-address");
});

test("copied labels take no Gateway, because only a Service in the Gateway's own namespace counts", async (t) => {
  const named = { "gateway.envoyproxy.io/owning-gateway-name": "gw" };
  const inInfra = { ...named, "gateway.envoyproxy.io/owning-gateway-namespace": "infra" };
  const envoy = controller("gateway.envoyproxy.io/gatewayclass-controller");
  for (const labels of [named, inInfra, { [GEP_1762]: "gw" }, {}]) {
    const copy = service("tenant/copy", { ip: "203.0.113.2", labels: { ...ENVOY_GATEWAY, ...labels } });
    const resolve = await cluster(t, NONE, copy);
    assert.equal(resolve("infra/gw", envoy), "no-address", JSON.stringify(labels));
    t.mock.timers.reset();
  }
});

test("a Gateway whose Service is of type ClusterIP is not ingress", async (t) => {
  const made = (key: string, type: string, ip?: string) =>
    service(key, { type, labels: { [GEP_1762]: "gw" }, clusterIP: "10.96.0.9", ...(ip && { ip }) });
  const resolve = await cluster(
    t,
    { targets: [{ name: "edge", classes: ["listed"], upstream: { service: { namespace: "edge", name: "lb" } } }] },
    made("mesh/egress", "ClusterIP"),
    made("shop/gw", "LoadBalancer", "203.0.113.1"),
    made("ports/gw", "NodePort"),
    service("tenant/gw", {
      type: "ClusterIP",
      labels: {
        "gateway.envoyproxy.io/owning-gateway-name": "gw",
        "gateway.envoyproxy.io/owning-gateway-namespace": "infra",
      },
    }),
  );
  assert.equal(resolve("mesh/gw"), INSIDE);
  assert.equal(resolve("mesh/gw", { addresses: ["10.96.0.9"] }), INSIDE);
  assert.equal(resolve("mesh/gw", { className: "listed" }), "edge", "a configured target lists its class");
  assert.equal(resolve("mesh/gw", { addresses: ["203.0.113.1"] }), foundName("shop", "gw"), "an address is evidence");
  assert.equal(resolve("infra/gw"), "no-target", "a Service of another namespace says nothing");
  assert.equal(resolve("shop/gw", { addresses: ["203.0.113.1"] }), foundName("shop", "gw"));
  assert.equal(resolve("ports/gw"), "no-target");
});

test("a Gateway with only a ClusterIP in its status is not ingress", async (t) => {
  const own = service("envoy-gateway-system/eg", { type: "ClusterIP", labels: ENVOY_GATEWAY, clusterIP: "fd00::7" });
  const resolve = await cluster(t, NONE, own, service("edge/lb", { ip: "203.0.113.1" }));
  assert.equal(resolve("infra/gw", { addresses: ["FD00:0::7"] }), INSIDE);
  assert.equal(resolve("infra/gw", { addresses: ["fd00::7", "203.0.113.1"] }), foundName("edge", "lb"));
  assert.equal(resolve("infra/gw", { addresses: ["fd00::7", "198.51.100.1"] }), "no-service");
  assert.equal(resolve("infra/gw", { addresses: ["10.96.0.7"] }), "no-service", "the ClusterIP of a load balancer");
});

test("a Gateway that declares itself internal is not ingress, unless a target lists its class", async (t) => {
  const inside = { code: INSIDE, text: "" };
  const lb = { name: "edge", upstream: { service: { namespace: "edge", name: "lb" } } };
  const resolve = await cluster(t, { targets: [lb] }, service("edge/lb", { ip: "203.0.113.1" }));
  assert.equal(resolve("infra/gw", { className: undefined, inside }), INSIDE);
  const byClass = (targets: readonly object[]) =>
    new TargetDiscovery({ config: parseConfig({ targets }), log: silentLogger });
  const hints = { className: "mesh", isGatewayClass: true, addresses: [], admitted: true, inside } as const;
  assert.deepEqual(byClass([lb]).resolve(hints), inside);
  assert.deepEqual(byClass([{ ...lb, classes: ["other"] }]).resolve(hints), inside);
  assert.equal(byClass([{ ...lb, classes: ["mesh"] }]).resolve(hints), "edge");
});
