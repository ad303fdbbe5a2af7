import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { RawService } from "#lib/kube/services.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { nameOf, type ServiceParts, service, targetsOf } from "#test/fakes/target-table.ts";
import type { RoutingHints } from "../sources/types.ts";
import { TargetTable } from "./target-table.ts";

// Which Service serves a Gateway of Gateway API, and which Gateways are not ingress.

const INSIDE = "gateway-inside-cluster";
const NO_ADDRESS = "no-address";
const GEP_1762 = "gateway.networking.k8s.io/gateway-name";
const OWNER = "gateway.envoyproxy.io/owning-gateway-name";
const IN_INFRA = { [OWNER]: "gw", "gateway.envoyproxy.io/owning-gateway-namespace": "infra" };
const ENVOY_GATEWAY = { "app.kubernetes.io/managed-by": "envoy-gateway" };
const MERGED = { ...ENVOY_GATEWAY, "gateway.envoyproxy.io/owning-gatewayclass": "eg" };

const controller = (name: string) => ({ controller: name });
const ISTIO = controller("istio.io/gateway-controller");
const ENVOY = controller("gateway.envoyproxy.io/gatewayclass-controller");
const TRAEFIK = controller("traefik.io/gateway-controller");
const INGRESS = { gateway: undefined, isGatewayClass: undefined } as object;

const traefik = service("edge/traefik", { ips: ["203.0.113.1"], labels: { "app.kubernetes.io/name": "traefik" } });
/** The Service that Istio makes for a Gateway. */
const made = (namespace: string, more: ServiceParts = {}) => {
  const labels = { "gateway.istio.io/managed": "istio.io-gateway-controller", [GEP_1762]: "gw" };
  return service(`${namespace}/gw-istio`, { labels, ...more });
};
const SHOP = made("shop", { ips: ["203.0.113.1"] });
const EGRESS = made("mesh", { type: "ClusterIP", clusterIPs: ["10.96.0.9"] });
const copy = (labels: Readonly<Record<string, string>>) =>
  service("tenant/copy", { ips: ["203.0.113.2"], labels: { ...ENVOY_GATEWAY, ...labels } });
const MERGED_LB = service("envoy-gateway-system/eg", { ips: ["203.0.113.1"], labels: MERGED });
const CLASS_OF_EG = { ...ENVOY, className: "eg" };
const gatewayOf = (namespace: string, classNamespace = "envoy-gateway-system") => ({
  gateway: { namespace, name: "gw", classNamespace },
});
const FOUND = nameOf("envoy-gateway-system/eg");
const OWN_IP = service("envoy-gateway-system/eg", {
  type: "ClusterIP",
  labels: ENVOY_GATEWAY,
  clusterIPs: ["fd00::7"],
});
const LB = service("edge/lb", { ips: ["203.0.113.1"] });
const at = (...addresses: string[]) => ({ addresses });
const edge = (more: object = {}) => ({
  targets: [{ name: "edge", upstream: { service: { namespace: "edge", name: "traefik" } }, ...more }],
});
const LISTED = edge({ classes: ["listed"] });
const SAYS_INSIDE = { gateway: { namespace: "infra", name: "gw", asksInside: true } } as const;

/** By namespace of the Gateway `gw`. */
const CASES: ReadonlyArray<
  readonly [string, readonly RawService[], string, Partial<RoutingHints>, string, settings?: object]
> = [
  ["the Service of its controller", [traefik], "infra", TRAEFIK, nameOf("edge/traefik")],
  ["another known controller", [traefik], "infra", controller("konghq.com/kic-gateway-controller"), NO_ADDRESS],
  ["an unknown controller", [traefik], "infra", controller("example.com/unknown"), NO_ADDRESS],
  ["without its GatewayClass", [traefik], "infra", {}, NO_ADDRESS],
  ["the default target of its controller", [traefik], "infra", TRAEFIK, "edge", edge()],
  ...["io.cilium/gateway-controller", "networking.gke.io/gateway", "example.com/unknown"].map(
    (name) => [`the default target, and ${name}`, [traefik], "infra", controller(name), "no-target", edge()] as const,
  ),
  ["the Service that was made for it", [SHOP, made("blog")], "shop", ISTIO, nameOf("shop/gw-istio")],
  ["a Service that was made for another", [SHOP], "infra", ISTIO, NO_ADDRESS],
  [
    "a Service that was made for another of its namespace",
    [SHOP],
    "shop",
    { ...ISTIO, gateway: { namespace: "shop", name: "other" } },
    NO_ADDRESS,
  ],
  [
    "an Ingress, and a Service that was made for a Gateway",
    [SHOP],
    "",
    { ...INGRESS, ...controller("istio.io/ingress-controller") },
    NO_ADDRESS,
  ],
  ...[{ [OWNER]: "gw" }, IN_INFRA, { [GEP_1762]: "gw" }, {}].map(
    (labels) => [`copied labels ${Object.keys(labels)}`, [copy(labels)], "infra", ENVOY, NO_ADDRESS] as const,
  ),
  ["merged Gateways, and a copy", [MERGED_LB, copy(MERGED)], "shop", { ...CLASS_OF_EG, ...gatewayOf("shop") }, FOUND],
  ["merged Gateways, and only a copy", [copy(MERGED)], "shop", { ...CLASS_OF_EG, ...gatewayOf("shop") }, NO_ADDRESS],
  ["merged Gateways of another class", [MERGED_LB], "shop", { ...ENVOY, ...gatewayOf("shop") }, NO_ADDRESS],
  ["merged Gateways, the class without parameters", [MERGED_LB], "shop", CLASS_OF_EG, NO_ADDRESS],
  ["a copy in the namespace of the Gateway", [copy(MERGED)], "tenant", CLASS_OF_EG, NO_ADDRESS],
  ["its Service of type ClusterIP", [EGRESS], "mesh", {}, INSIDE],
  ["its Service of type ClusterIP, with that address", [EGRESS], "mesh", at("10.96.0.9"), INSIDE],
  [
    "its Service of type ClusterIP, and a target that lists its class",
    [EGRESS],
    "mesh",
    { className: "listed" },
    "edge",
    LISTED,
  ],
  [
    "its Service of type ClusterIP, and the address of a load balancer",
    [EGRESS, LB],
    "mesh",
    at("203.0.113.1"),
    nameOf("edge/lb"),
  ],
  ["its Service of type NodePort", [made("ports", { type: "NodePort" })], "ports", {}, NO_ADDRESS],
  [
    "a Service of type ClusterIP in another namespace",
    [service("tenant/gw", { type: "ClusterIP", labels: IN_INFRA })],
    "infra",
    {},
    NO_ADDRESS,
  ],
  ["only a ClusterIP in its status", [OWN_IP, LB], "infra", at("FD00:0::7"), INSIDE],
  ["a ClusterIP beside a load balancer", [OWN_IP, LB], "infra", at("fd00::7", "203.0.113.1"), nameOf("edge/lb")],
  ["a ClusterIP beside another address", [OWN_IP, LB], "infra", at("fd00::7", "198.51.100.1"), "no-service"],
  ["the ClusterIP of a load balancer", [OWN_IP, LB], "infra", at("10.96.0.7"), "no-service"],
  ...["cnn-egress-gateway-istio.default.svc.cluster.local", "gw.infra.svc", "GW.Infra.SVC.cluster.local."].map(
    (name) => [`only the name ${name} in its status`, [], "infra", at(name), INSIDE] as const,
  ),
  ...["gw.infra.svc.example.com", "lb.example.com", "svc"].map(
    (name) => [`only the name ${name} in its status`, [], "infra", at(name), "no-service"] as const,
  ),
  [
    "a name inside, which a tenant gave to a load balancer",
    [service("tenant/lb", { hostnames: ["gw.infra.svc"], annotations: { "switchback.dev/map": "always" } })],
    "infra",
    at("gw.infra.svc"),
    INSIDE,
  ],
  ["a ClusterIP and a name inside", [OWN_IP], "infra", at("fd00::7", "gw.infra.svc"), INSIDE],
  ["a name inside beside an address", [], "infra", at("gw.infra.svc", "203.0.113.9"), "no-service"],
  ["it says so, and a default target", [traefik], "infra", { className: "mesh", ...SAYS_INSIDE }, INSIDE, edge()],
  [
    "it says so, and a target that lists its class",
    [],
    "infra",
    { className: "listed", ...SAYS_INSIDE },
    "edge",
    LISTED,
  ],
];
for (const [what, services, namespace, hints, expected, settings = {}] of CASES) {
  test(`a Gateway: ${what}: ${expected}`, () => {
    const { find } = targetsOf(settings, services);
    const gateway = { className: "any", isGatewayClass: true, gateway: { namespace, name: "gw" } } as const;
    assert.equal(find({ ...gateway, ...hints }), expected);
  });
}

test("a Gateway is not ingress at a name of a Service in the domain of the cluster", () => {
  const at = (clusterDomain?: string) =>
    new TargetTable({ config: parseConfig({}), clusterDomain, log: silentLogger }).isServiceName("gw.a.svc.cozy.local");
  assert.deepEqual([at("Cozy.local."), at("cluster.local"), at()], [true, false, false]);
});
