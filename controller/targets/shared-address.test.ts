import assert from "node:assert/strict";
import { test } from "node:test";
import type { RawService } from "#lib/kube/services.ts";
import { nameOf, type ServiceParts, service, targetsOf } from "#test/fakes/target-table.ts";
import type { RoutingHints } from "../sources/types.ts";
import { findTarget } from "./find-target.ts";
import type { ServiceView } from "./service-view.ts";

// Which Service has the address of an object. Services may share addresses: k3s' ServiceLB gives every LoadBalancer
// Service the addresses of the nodes (k3s-io/k3s, pkg/cloudprovider/servicelb.go, `getStatus` and `podIPs`), and
// MetalLB shares one between Services with the same key and different ports
// (https://metallb.io/usage/#ip-address-sharing).

const ALWAYS = { "switchback.dev/map": "always" };
const OLD = "2025-01-01T00:00:00Z";
const LATE = "2026-02-01T00:00:00Z";
const NODES = ["192.168.1.11", "192.168.1.12", "192.168.1.13"];

const A = service("edge/a", { ips: ["203.0.113.1", "2001:db8::1"] });
/** Service `a`, with only one address family. */
const onlyIPv4 = (more: ServiceParts = {}) =>
  service("edge/a", { ips: ["203.0.113.1", "2001:db8::1"], clusterIPs: ["10.96.0.7"], ...more });
const BOTH: ServiceParts = { ips: ["203.0.113.1", "2001:db8::1"], clusterIPs: ["10.96.0.7", "fd00::7"] };
const B = service("edge/b", { ips: ["203.0.113.2"] });
const AT_A = { ips: ["203.0.113.1"] };
const host = (key: string, more: ServiceParts = {}) => service(key, { hostnames: ["lb.Example.net"], ...more });
const always = (key: string, more: ServiceParts = {}) => host(key, { annotations: ALWAYS, ...more });
const UDP: RawService = {
  ...service("edge/quic", AT_A),
  spec: { type: "LoadBalancer", ports: [{ port: 443, protocol: "UDP" }] },
};
const TRAEFIK = service("kube-system/traefik", { ips: NODES });
const TENANTS = [
  service("tenant/db", { ips: NODES, ports: [5_432], created: OLD }),
  service("tenant/web", { ips: NODES.slice(1, 2), ports: [8_443], created: OLD }),
];
const [TRAEFIK_NAME, A_NAME] = [nameOf("kube-system/traefik"), nameOf("edge/a")];
const LB = nameOf("edge/lb");
const NGINX = {
  targets: [{ name: "nginx", upstream: { service: { namespace: "edge", name: "a" } }, classes: ["nginx"] }],
};

interface Case {
  readonly services: readonly RawService[];
  readonly at: readonly string[];
  readonly ports?: readonly number[];
  readonly held?: string;
  readonly settings?: object;
  readonly is: string;
}
const CASES: Readonly<Record<string, Case>> = {
  "the Service with the address": { services: [A, B], at: ["203.0.113.1"], is: A_NAME },
  "one of its addresses, in another spelling": {
    services: [service("edge/a", BOTH)],
    at: ["2001:DB8:0::1"],
    is: A_NAME,
  },
  "an address that no Service has": { services: [A, B], at: ["198.51.100.1"], is: "no-service" },
  "no address yet": { services: [A], at: [], is: "no-address" },
  "addresses of two Services": { services: [A, B], at: ["203.0.113.1", "203.0.113.2"], is: "several-services" },
  "a later Service at one of two addresses": {
    services: [service("edge/a", BOTH), service("edge/c", AT_A)],
    at: ["203.0.113.1", "2001:db8::1"],
    is: A_NAME,
  },
  "two Services of one age, by name": { services: [service("edge/c", AT_A), A], at: ["203.0.113.1"], is: A_NAME },
  "the older of two Services": {
    services: [A, service("tenant/old", { ...AT_A, created: OLD })],
    at: ["203.0.113.1"],
    is: nameOf("tenant/old"),
  },
  "the younger of two, which the name has": {
    services: [A, service("tenant/old", { ...AT_A, created: OLD })],
    at: ["203.0.113.1"],
    held: A_NAME,
    is: A_NAME,
  },
  "kube-proxy leads the address to the other one only, and not to the one that the name has": {
    services: [service("edge/a", { ...AT_A, ipMode: "Proxy" }), service("edge/c", AT_A)],
    at: ["203.0.113.1"],
    held: A_NAME,
    is: nameOf("edge/c"),
  },
  "an older one with the address in its externalIPs, while kube-proxy leaves that of the name's own alone": {
    services: [
      service("edge/a", { ...AT_A, ipMode: "Proxy" }),
      service("tenant/old", { external: ["203.0.113.1"], created: OLD }),
    ],
    at: ["203.0.113.1"],
    held: A_NAME,
    is: "ip-mode-proxy",
  },
  "an older one with the address in its externalIPs": {
    services: [A, service("tenant/old", { external: ["203.0.113.1"], created: OLD })],
    at: ["203.0.113.1"],
    is: A_NAME,
  },
  "an externalIP of any type of Service": {
    services: [service("edge/a", { type: "NodePort", external: ["203.0.113.7"] })],
    at: ["203.0.113.7"],
    is: A_NAME,
  },
  "an address shared with a Service for UDP": { services: [A, UDP], at: ["203.0.113.1"], is: A_NAME },
  "no port of the object": {
    services: [service("edge/a", { ...AT_A, ports: [8443] })],
    at: ["203.0.113.1"],
    is: "service-without-port",
  },
  "the port of a listener": {
    services: [service("edge/a", { ...AT_A, ports: [8443] })],
    at: ["203.0.113.1"],
    ports: [8443],
    is: A_NAME,
  },
  "ipMode Proxy": {
    services: [service("edge/a", { ...AT_A, ipMode: "Proxy" })],
    at: ["203.0.113.1"],
    is: "ip-mode-proxy",
  },
  "ipMode Proxy, mapped always": {
    services: [service("edge/a", { ...AT_A, ipMode: "Proxy", annotations: ALWAYS })],
    at: ["203.0.113.1"],
    is: A_NAME,
  },
  "a family that the Service has not": { services: [onlyIPv4()], at: ["2001:db8::1"], is: "not-short-circuited" },
  "a family that the Service has not, mapped always": {
    services: [onlyIPv4({ annotations: ALWAYS })],
    at: ["2001:db8::1"],
    is: A_NAME,
  },
  "both families, of which the Service has one": {
    services: [onlyIPv4()],
    at: ["2001:db8::1", "203.0.113.1"],
    is: A_NAME,
  },
  "a Service of a target for other classes": {
    services: [service("edge/a", { ips: NODES, created: OLD }), TRAEFIK],
    at: NODES,
    settings: NGINX,
    is: TRAEFIK_NAME,
  },
  "older Services of tenants on other ports": { services: [TRAEFIK, ...TENANTS], at: NODES, is: TRAEFIK_NAME },
  "a Gateway on the port of a tenant's Service": {
    services: [TRAEFIK, ...TENANTS],
    at: NODES,
    ports: [8_443],
    is: nameOf("tenant/web"),
  },
  "the same, whose names Traefik's Service has": {
    services: [TRAEFIK, ...TENANTS],
    at: NODES,
    ports: [8_443],
    held: TRAEFIK_NAME,
    is: TRAEFIK_NAME,
  },
  "MetalLB: a younger Service with the port": {
    services: [service("git/ssh", { ...AT_A, ports: [22], created: OLD }), A],
    at: ["203.0.113.1"],
    is: A_NAME,
  },
  "a host name": { services: [host("edge/lb")], at: ["LB.example.net"], is: "load-balancer-hostname" },
  "a host name, mapped always": { services: [always("edge/lb")], at: ["LB.example.net"], is: LB },
  "another host name": { services: [always("edge/lb")], at: ["x.example.net"], is: "no-service" },
  "a host name beside an address": { services: [A], at: ["lb.example.net", "203.0.113.1"], is: A_NAME },
  "a host name beside an address of no Service": {
    services: [always("edge/lb")],
    at: ["lb.example.net", "198.51.100.1"],
    is: "no-service",
  },
  "host names of two": {
    services: [always("edge/lb"), service("edge/x", { hostnames: ["x.net"], annotations: ALWAYS })],
    at: ["lb.example.net", "x.net"],
    is: "several-services",
  },
  "a host name of two of a namespace": {
    services: [always("edge/lb"), always("edge/a", { created: LATE })],
    at: ["lb.example.net"],
    is: LB,
  },
  "a host name of two, of which one needs no mapping": {
    services: [host("edge/lb"), always("tenant/late", { created: LATE })],
    at: ["lb.example.net"],
    is: "load-balancer-hostname",
  },
  "a host name of two namespaces": {
    services: [always("edge/lb"), always("tenant/late", { created: LATE })],
    at: ["lb.example.net"],
    is: "several-services",
  },
  "a host name of two namespaces, one of which the name has": {
    services: [always("edge/lb"), always("tenant/old", { created: OLD })],
    at: ["lb.example.net"],
    held: LB,
    is: LB,
  },
  "discovery.map always": {
    services: [host("edge/lb")],
    at: ["lb.example.net"],
    settings: { discovery: { map: "always" } },
    is: LB,
  },
  "discovery.map always, but the Service says auto": {
    services: [host("edge/lb", { annotations: { "switchback.dev/map": "auto" } })],
    at: ["lb.example.net"],
    settings: { discovery: { map: "always" } },
    is: "load-balancer-hostname",
  },
};
for (const [what, { services, at, ports, held, settings = {}, is }] of Object.entries(CASES)) {
  test(`${what}: ${is}`, () => {
    const { find } = targetsOf(settings, services);
    assert.equal(find({ className: "any", addresses: at, ...(ports && { ports }) }, held), is);
  });
}

test("an object that names its Service needs no address", () => {
  const services = [A, host("edge/h"), service("edge/none"), service("edge/always", { annotations: ALWAYS })];
  const { find } = targetsOf({}, services);
  const named = (name: string) => find({ service: { namespace: "edge", name } });
  assert.deepEqual(["a", "other", "h", "none", "always"].map(named), [
    A_NAME,
    "no-service",
    "load-balancer-hostname",
    "no-address",
    nameOf("edge/always"),
  ]);
});

test("addresses follow their Service, and are removed with it", () => {
  const { find, set, remove } = targetsOf({}, [A, always("edge/lb")]);
  const at = (address: string) => find({ addresses: [address] });
  set(service("edge/a", { ips: ["203.0.113.7"] }));
  assert.deepEqual([at("203.0.113.1"), at("203.0.113.7")], ["no-service", A_NAME]);
  remove("edge/a");
  remove("edge/lb");
  assert.deepEqual([at("203.0.113.7"), at("lb.example.net")], ["no-service", "no-service"]);
});

test("a reason names the addresses, the ports and the Services", () => {
  const { explain } = targetsOf({}, [A, B, service("edge/p", { ips: ["203.0.113.3"], ports: [8443] })]);
  const at = (...addresses: string[]) => explain({ addresses });
  assert.match(at("198.51.100.1", "a.net"), /^no-service: no Service has the address 198\.51\.100\.1 of its status/);
  assert.match(at("203.0.113.2", "203.0.113.1"), /^several-services: several Services \(edge\/a, edge\/b\) have its/);
  assert.match(at("203.0.113.3"), /^service-without-port: edge\/p: no Service .* ports 80, 443$/);
});

test("DNS leads to a Service by an address of its load balancer, whatever externalIPs a tenant writes", () => {
  const external = { type: "NodePort", external: ["203.0.113.1", "198.51.100.1"], created: OLD };
  const { table, set } = targetsOf({}, [service("tenant/lb", external), A]);
  assert.deepEqual([table.targetAt("203.0.113.1"), table.targetAt("198.51.100.1")], [A_NAME, undefined]);
  set(service("tenant/old", { ips: ["203.0.113.1"], created: OLD, ports: [8443] }));
  assert.equal(table.targetAt("203.0.113.1"), A_NAME, "the other one has no port of HTTP");
  set(service("tenant/old", { ips: ["203.0.113.1"], created: OLD }));
  assert.equal(table.targetAt("203.0.113.1"), nameOf("tenant/old"));
  assert.equal(table.targetAt("203.0.113.1", A_NAME), A_NAME, "the name has it");
  const nginx = { name: "nginx", upstream: { service: { namespace: "edge", name: "a" } }, classes: ["nginx"] };
  const configured = targetsOf({ targets: [nginx] }, [A, service("tenant/old", { ...AT_A, created: OLD })]).table;
  assert.equal(configured.targetAt("203.0.113.1", "nginx"), "nginx", "the name has it, though others would not");
  assert.deepEqual(table.addressesOf(nameOf("tenant/lb")), ["203.0.113.1", "198.51.100.1"]);
});

test("with 5,000 Services of tenants on the nodes, names and ports go to the one with the object's port", () => {
  const tenants = Array.from({ length: 5_000 }, (_, index) =>
    service(`tenant-${index % 500}/app-${index}`, { ips: NODES, ports: [10_000 + index], created: OLD }),
  );
  const split = [
    service("edge/plain", { ips: NODES, ports: [80], created: LATE }),
    service("edge/secure", { ips: NODES, ports: [443] }),
  ];
  const { find, portsOf } = targetsOf({}, [...tenants, ...split]);
  assert.equal(find({ className: "traefik", addresses: NODES }), nameOf("edge/secure"));
  assert.deepEqual(portsOf("edge/secure"), ["443", "80 10.96.0.7"], "80 of the other one, and none of the tenants'");
  assert.equal(find({ addresses: NODES, ports: [10_007] }), nameOf("tenant-7/app-7"));
});

/** How many fields of Services are read to find one Service among `count` that share all addresses. */
function readsOf(count: number): number {
  let reads = 0;
  const { table, find } = targetsOf({}, []);
  for (let index = 0; index < count; index += 1) {
    const view = table.view(service(`tenant/app-${index}`, { ips: NODES }));
    const counting = new Proxy(view as ServiceView, {
      get: (target, field) => {
        reads += 1;
        return Reflect.get(target, field);
      },
    });
    table.set(`tenant/app-${index}`, counting);
  }
  reads = 0;
  assert.match(find({ addresses: NODES }), /^tenant-app-/);
  return reads;
}

test("Services that share an address are read once each, not compared by pairs", () => {
  assert.ok(readsOf(5_000) <= 2 * readsOf(2_500) + 100, `${readsOf(2_500)} and ${readsOf(5_000)} reads`);
});

// A mapped name has only the ports of its target. Pods lose anything else that answers at its public address.

const HTTP = service("edge/lb", { ...AT_A, ports: [80] });
const tls = (key: string, parts: ServiceParts = {}) =>
  service(key, { ...AT_A, ports: [443], clusterIPs: ["10.96.0.8"], ...parts });

test("a port that the Service lacks is borrowed from the Service that has it at the same address", () => {
  const { find, portsOf, set, remove } = targetsOf({}, [HTTP, tls("edge/tls", { created: LATE })]);
  assert.equal(find({ addresses: ["203.0.113.1"] }), LB);
  assert.deepEqual(portsOf("edge/lb"), ["443 10.96.0.8", "80"]);
  // A later Service changes nothing, whatever its annotations say.
  set(tls("a-tenant/late", { created: "2026-03-01T00:00:00Z", annotations: ALWAYS, clusterIPs: ["10.96.0.9"] }));
  assert.deepEqual(portsOf("edge/lb"), ["443 10.96.0.8", "80"]);
  remove("edge/tls");
  assert.deepEqual(portsOf("edge/lb"), ["443 10.96.0.9", "80"]);
});

/** The configured target `web`. */
const web = (more: object = {}) => ({
  targets: [{ name: "web", upstream: { service: { namespace: "edge", name: "lb" } }, classes: ["nginx"], ...more }],
});
const DIRECT = web({ ports: [{ port: 443, protocol: "none" }] });
const REDIRECT = { ips: AT_A.ips, ports: [80] };
for (const [what, services, ports, settings, lost] of [
  ["a Service without port 80", [tls("edge/lb")], undefined, {}, "80"],
  [
    "port 80 at a load balancer that kube-proxy passes by",
    [tls("edge/lb"), service("edge/x", { ...REDIRECT, ipMode: "Proxy" })],
    undefined,
    {},
    "80",
  ],
  ["port 80 of another Service", [tls("edge/lb"), service("edge/x", REDIRECT)], undefined, {}, undefined],
  ["a Gateway with a listener on 443", [tls("edge/lb")], [443], {}, undefined],
  ["a Gateway with listeners on both, and another", [HTTP], [80, 443, 8443], {}, "443"],
  ["a configured target with one port", [service("edge/lb")], undefined, web({ ports: [{ port: 443 }] }), "80"],
  ["a target without a relay", [service("edge/lb")], undefined, DIRECT, undefined],
] as const) {
  test(`${what}: names lose ${lost === undefined ? "no port" : `port ${lost}`}, with a warning`, () => {
    const { table } = targetsOf(settings, services);
    const hints: RoutingHints = { className: "nginx", addresses: AT_A.ips, admitted: true, ...(ports && { ports }) };
    const { warning, target } = findTarget(hints, { held: undefined }, table);
    assert.equal(typeof target, "string");
    assert.equal(warning && /port-lost.* has no port (\d+):/.exec(`${warning.code} ${warning.text}`)?.[1], lost);
  });
}
