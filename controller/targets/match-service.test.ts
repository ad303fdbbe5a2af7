import assert from "node:assert/strict";
import { test } from "node:test";
import type { RoutingHints } from "../sources/types.ts";
import { AddressTable } from "./address-table.ts";
import { type KnownServices, matchService } from "./match-service.ts";
import { type RawService, viewService } from "./service-view.ts";

type Ingress = { ip?: string; hostname?: string; ipMode?: string };

const ALWAYS = { "switchback.dev/map": "always" };

function service(
  name: string,
  ingress: Ingress[],
  ports: object[] = [{ port: 443 }],
  annotations: Record<string, string> = {},
): RawService {
  return {
    metadata: { namespace: "edge", name, annotations },
    spec: { type: "LoadBalancer", ports: ports as { port: number }[] },
    status: { loadBalancer: { ingress } },
  };
}

function indexOf(...services: RawService[]): AddressTable {
  const index = new AddressTable();
  for (const raw of services) index.set(`edge/${raw.metadata?.name}`, viewService(raw, "v1"));
  return index;
}

function hints(...addresses: string[]): RoutingHints {
  return { className: "nginx", addresses, admitted: addresses.length > 0 };
}

/** Nothing is known beyond the Services. */
const no = () => false;
const ANY: KnownServices = { isOfAnotherClass: no, isHeld: no, isServing: no, isInUse: no, isConfigured: no };

function match(of: RoutingHints, ...services: RawService[]): string {
  const found = matchService(of, indexOf(...services), ANY);
  return "code" in found ? found.code : found.name;
}

const A = service("a", [{ ip: "203.0.113.1" }, { ip: "2001:db8::1" }]);
/** Service `a`, with only one address family. */
function onlyIPv4(annotations: Record<string, string> = {}): RawService {
  const raw = service("a", [{ ip: "203.0.113.1" }, { ip: "2001:db8::1" }], undefined, annotations);
  return { ...raw, spec: { ...raw.spec, clusterIPs: ["10.96.0.7"] } };
}
const B = service("b", [{ ip: "203.0.113.2" }]);
const always = (name: string, ...ingress: Ingress[]) => service(name, ingress, undefined, ALWAYS);
const LB = always("lb", { hostname: "lb.example.net" });

const CASES: ReadonlyArray<readonly [string, string, RoutingHints, ...RawService[]]> = [
  ["the Service with the address", "a", hints("203.0.113.1"), A, B],
  ["either address of it, in any spelling", "a", hints("2001:DB8:0::1"), A, B],
  ["both addresses of one Service", "a", hints("203.0.113.1", "2001:db8::1"), A, B],
  ["an address that no Service has", "no-service", hints("198.51.100.1"), A, B],
  ["addresses of two Services", "several-services", hints("203.0.113.1", "203.0.113.2"), A, B],
  [
    "an address that two Services of one age share, by name",
    "a",
    hints("203.0.113.1"),
    service("c", [{ ip: "203.0.113.1" }]),
    A,
  ],
  [
    "two addresses, of which one is shared",
    "a",
    hints("203.0.113.1", "2001:db8::1"),
    A,
    service("c", [{ ip: "203.0.113.1" }]),
  ],
  [
    "an address shared with a Service for UDP",
    "a",
    hints("203.0.113.1"),
    A,
    service("quic", [{ ip: "203.0.113.1" }], [{ port: 443, protocol: "UDP" }]),
  ],
  ["ipMode Proxy", "ip-mode-proxy", hints("203.0.113.3"), service("p", [{ ip: "203.0.113.3", ipMode: "Proxy" }])],
  ["an address of a family that its Service has not", "ip-family-not-served", hints("2001:db8::1"), onlyIPv4()],
  ["the other family, and mapped always", "a", hints("2001:db8::1"), onlyIPv4(ALWAYS)],
  ["both families, of which its Service has one", "a", hints("2001:db8::1", "203.0.113.1"), onlyIPv4()],
  ["a host name", "load-balancer-hostname", hints("lb.example.net"), service("h", [{ hostname: "lb.example.net" }])],
  ["a host name beside an address", "a", hints("lb.example.net", "203.0.113.1"), A],
  ["no status yet", "no-address", hints(), A],
  [
    "ipMode Proxy, and mapped always",
    "p",
    hints("203.0.113.3"),
    always("p", { ip: "203.0.113.3", ipMode: "Proxy" }),
    A,
  ],
  ["a host name, and mapped always", "h", hints("LB.example.net"), always("h", { hostname: "lb.Example.net" }), A],
  ["another host name", "no-service", hints("x.example.net"), always("h", { hostname: "lb.example.net" })],
  ["a host name beside an address that no Service has", "no-service", hints("lb.example.net", "198.51.100.1"), LB],
  ["a host name that two share", "a-lb", hints("lb.example.net"), LB, always("a-lb", { hostname: "lb.example.net" })],
  ["host names of two", "several-services", hints("lb.example.net", "x.net"), LB, always("x", { hostname: "x.net" })],
  [
    "a host name that an older Service, which is not mapped always, has too",
    "load-balancer-hostname",
    hints("lb.example.net"),
    LB,
    service("a", [{ hostname: "lb.example.net" }]),
  ],
];
for (const [what, expected, of, ...services] of CASES) {
  test(`${what}: ${expected}`, () => assert.equal(match(of, ...services), expected));
}

test("an object that names its Service needs no address", () => {
  const named = (name: string): RoutingHints => ({ ...hints(), service: { namespace: "edge", name } });
  assert.equal(match(named("a"), A), "a");
  assert.equal(match(named("other"), A), "no-service");
  assert.equal(match(named("h"), service("h", [{ hostname: "lb.example.net" }])), "load-balancer-hostname");
  assert.equal(match(named("h"), service("h", [])), "no-address");
  assert.equal(match(named("h"), always("h")), "h");
});

test("addresses follow their Service, and are removed with it", () => {
  const index = indexOf(A, B);
  index.set("edge/a", viewService(service("a", [{ ip: "203.0.113.7" }]), "v1"));
  const code = (address: string) => {
    const found = matchService(hints(address), index, ANY);
    return "code" in found ? found.code : found.name;
  };
  assert.deepEqual([code("203.0.113.1"), code("203.0.113.7"), code("203.0.113.2")], ["no-service", "a", "b"]);
  index.set("edge/b", undefined);
  assert.equal(code("203.0.113.2"), "no-service");
  index.set("edge/lb", viewService(LB, "v1"));
  assert.equal(code("lb.example.net"), "lb");
  index.set("edge/lb", undefined);
  assert.equal(code("lb.example.net"), "no-service");
});

test("each reason why there is no Service, with its text", () => {
  const reason = (of: RoutingHints, ...services: RawService[]) => matchService(of, indexOf(...services), ANY);
  const named = (name: string): RoutingHints => ({ ...hints(), service: { namespace: "edge", name } });
  assert.deepEqual(reason(named("x"), A), {
    code: "no-service",
    text: "the Service edge/x is not of type LoadBalancer and has no externalIPs",
  });
  assert.deepEqual(reason(named("h"), service("h", [])), {
    code: "no-address",
    text: "the load balancer of the Service edge/h has no address yet",
  });
  const host = "its load balancer has the host name a.net, b.net, which is not short-circuited: pods reach it";
  assert.deepEqual(reason(hints("a.net", "b.net"), A), {
    code: "no-service",
    text: "no Service has the address a.net, b.net of its status; it may be a node's: see `switchback doctor`",
  });
  assert.deepEqual(reason(named("h"), service("h", [{ hostname: "a.net" }, { hostname: "b.net" }])), {
    code: "load-balancer-hostname",
    text: host,
  });
  assert.deepEqual(reason(hints(), A), {
    code: "no-address",
    text: "its status has no load balancer address yet",
  });
  assert.deepEqual(reason(hints("198.51.100.1", "a.net", "198.51.100.2"), A), {
    code: "no-service",
    text:
      "no Service has the address 198.51.100.1, 198.51.100.2 of its status; " +
      "it may be a node's: see `switchback doctor`",
  });
  assert.deepEqual(reason(hints("203.0.113.2", "203.0.113.1"), B, A), {
    code: "several-services",
    text:
      "several Services (edge/a, edge/b) have its addresses 203.0.113.2, 203.0.113.1; " +
      "configure the target by its class",
  });
  assert.deepEqual(reason(hints("203.0.113.3"), service("p", [{ ip: "203.0.113.3", ipMode: "Proxy" }])), {
    code: "ip-mode-proxy",
    text: "the Service edge/p has ipMode Proxy: pods reach its load balancer, no mapping is needed",
  });
});
