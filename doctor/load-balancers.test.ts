import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { install, services } from "#test/fakes/doctor-changes.ts";
import { BALANCER_IP, FORBIDDEN, HEALTHY, NAME, NGINX, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { known } from "./fact.ts";
import type { ClusterFacts, RouteFacts, ServiceFacts } from "./facts.ts";
import { filteredBy, findLoadBalancers } from "./load-balancers.ts";

const route: RouteFacts = {
  kind: "Gateway",
  namespace: "edge",
  name: "public",
  addresses: ["192.0.2.9"],
  hosts: [],
  className: undefined,
};
const port = (number: number) => ({ name: "", port: number, targetPort: "", appProtocol: "" });
/** A LoadBalancer Service that nothing else points to. */
const PLAIN: ServiceFacts = { ...NGINX, name: "edge", ports: [port(5432)], entries: [{ ip: "192.0.2.9" }] };

describe("a Service counts as a load balancer, for the first of these reasons:", () => {
  const foundBy = (service: Partial<ServiceFacts>, change: Partial<ClusterFacts> = {}) => {
    const facts = { ...NOT_INSTALLED, ...services({ ...PLAIN, ...service }), ...change };
    return findLoadBalancers(facts).map((one) => one.foundBy);
  };
  const labels = { app: "traefik" };
  const gateways = known([route]);

  for (const [what, found, expected] of [
    [
      "a target uses it, of any type",
      foundBy({ ...NGINX, type: "ClusterIP" }, { install: HEALTHY.install }),
      "target ingress-nginx uses it",
    ],
    [
      "a status has its address",
      foundBy({ labels, ports: [port(80)] }, { gateways }),
      "the status of Gateway edge/public has its address",
    ],
    [
      "a status has its address, in another spelling",
      foundBy({ entries: [{ ip: "2001:db8:0::9" }] }, { gateways: known([{ ...route, addresses: ["2001:DB8::9"] }]) }),
      "the status of Gateway edge/public has its address",
    ],
    ["its labels", foundBy({ labels, ports: [port(80)] }), "it has labels of Traefik"],
    ["port 80", foundBy({ ports: [port(5432), port(80)] }), "it serves port 80"],
    ["port 443", foundBy({ ports: [port(443)] }), "it serves port 443"],
  ] as const) {
    test(what, () => assert.deepEqual(found, [expected]));
  }

  test("other Services do not count", () => {
    assert.deepEqual(foundBy({}), []);
    assert.deepEqual(foundBy({}, { gateways: known([{ ...route, addresses: ["192.0.2.8"] }]) }), []);
    assert.deepEqual(foundBy({ type: "ClusterIP", entries: [], labels, ports: [port(80)] }, { gateways }), []);
    assert.deepEqual(foundBy({ ports: [port(81), port(442)] }), []);
    assert.deepEqual(foundBy({ labels, ports: [] }, { gateways }), [], "one with UDP ports alone");
    assert.deepEqual(findLoadBalancers({ ...NOT_INSTALLED, services: FORBIDDEN }), []);
  });
});

test("a load balancer is found with its addresses, names, target and software", () => {
  const service = { ...NGINX, entries: [{ ip: BALANCER_IP, hostname: "lb.example.com" }, { hostname: "x" }, {}] };
  const [found, ...others] = findLoadBalancers({ ...HEALTHY, ...services(service) });
  assert.deepEqual(others, []);
  assert.ok(found);
  assert.deepEqual(found.service, service);
  assert.deepEqual(found.addresses, [BALANCER_IP, "lb.example.com", "x"]);
  assert.deepEqual(found.names, [NAME]);
  assert.equal(found.target?.name, "ingress-nginx");
  assert.equal(found.software, undefined);
});

test("source ranges may keep pods from a load balancer's address, if the ranges of its family do not admit all", () => {
  const ranges = ["203.0.113.0/24", " 198.51.100.0/24 ", "2001:db8::/32"];
  const rangesFor = (change: Partial<ServiceFacts>) => {
    const service = { ...NGINX, sourceRanges: ranges, ...change };
    return findLoadBalancers({ ...HEALTHY, ...services(service) }).flatMap(filteredBy);
  };
  assert.deepEqual(rangesFor({}), ["203.0.113.0/24", "198.51.100.0/24"]);
  assert.deepEqual(rangesFor({ entries: [{ ip: "2001:db8::9" }] }), ["2001:db8::/32"]);
  assert.deepEqual(rangesFor({ sourceRanges: [...ranges, "0.0.0.0/0"] }), []);
  assert.deepEqual(rangesFor({ entries: [{ ip: BALANCER_IP, ipMode: "Proxy" }, { hostname: "x" }] }), []);
  assert.deepEqual(rangesFor({ entries: [{ ip: BALANCER_IP, external: true }] }), []);
});

test("load balancers are sorted by namespace and name", () => {
  const named = (namespace: string, name: string) => ({ ...PLAIN, namespace, name, ports: [port(80)] });
  const all = [named("b", "a"), named("a", "b"), named("c", "a"), named("a", "a")];
  const found = findLoadBalancers({ ...NOT_INSTALLED, ...services(...all) });
  assert.deepEqual(
    found.map(({ service }) => `${service.namespace}/${service.name}`),
    ["a/a", "a/b", "b/a", "c/a"],
  );
});

describe("the names of a load balancer", () => {
  const names = (change: Partial<ClusterFacts>) => findLoadBalancers({ ...HEALTHY, ...change })[0]?.names;
  const mapped = (
    clusterIPs: string[],
    map = publishedMapOf(
      "r",
      new Map([
        [NAME, ["198.51.100.9"]],
        ["b.example.com", ["198.51.100.8", "198.51.100.7"]],
      ]),
    ),
  ) => {
    const targets = [
      { name: "other", clusterIPs: ["198.51.100.9"] },
      { name: "ingress-nginx", clusterIPs },
    ];
    return install({ map: known({ targets, map }) });
  };
  const none = { ingresses: known([]) };

  test("are the hosts of the routes with its address: each once, in lower case, sorted, without wildcards", () => {
    const hosts = ["B.example.com", "b.example.com", "*.example.com", "", "a.example.com"];
    const routes = [
      { ...route, addresses: [BALANCER_IP], hosts },
      { ...route, hosts: ["other.example.com"] },
    ];
    const noMap = install({ map: known(undefined) });
    assert.deepEqual(names({ gateways: known(routes), ...none, ...noMap }), ["a.example.com", "b.example.com"]);
    assert.deepEqual(names({ gateways: FORBIDDEN, ingresses: known(routes), ...noMap }), [
      "a.example.com",
      "b.example.com",
    ]);
  });

  test("include those mapped to an address of its target", () => {
    assert.deepEqual(names({ ...none, ...mapped(["198.51.100.7"]) }), ["b.example.com"]);
    assert.deepEqual(names({ ...none, ...mapped(["198.51.100.9", "198.51.100.8"]) }), ["b.example.com", NAME]);
    assert.deepEqual(names({ ...none, ...mapped([]) }), []);
  });

  test("are empty if the map cannot be read", () => {
    assert.deepEqual(names({ ...none, ...install({ map: FORBIDDEN }) }), []);
    const broken = { targets: [], map: { code: "shard-missing", text: "t" } };
    assert.deepEqual(names({ ...none, ...install({ map: known(broken) }) }), []);
    assert.deepEqual(
      names({
        ...none,
        ...install({ map: known({ ...broken, map: publishedMapOf("r", new Map([[NAME, ["198.51.100.9"]]])) }) }),
      }),
      [],
    );
  });

  test("do not come from the map if no target uses the load balancer", () => {
    assert.deepEqual(findLoadBalancers({ ...HEALTHY, ...none, ...services({ ...NGINX, name: "edge" }) })[0]?.names, []);
  });
});
