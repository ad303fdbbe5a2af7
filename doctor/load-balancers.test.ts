import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { services } from "#test/fakes/doctor-changes.ts";
import { BALANCER_IP, FORBIDDEN, HEALTHY, NAME, NGINX, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { known } from "./fact.ts";
import type { ClusterFacts, ServiceFacts } from "./facts.ts";
import { filteredBy, findLoadBalancers } from "./load-balancers.ts";

const port = (number: number) => ({ name: "", port: number, appProtocol: "" });
/** A LoadBalancer Service that nothing else points to. */
const PLAIN: ServiceFacts = { ...NGINX, name: "edge", ports: [port(5432)], entries: [{ ip: "192.0.2.9" }] };

describe("a Service counts as a load balancer if", () => {
  const found = (service: Partial<ServiceFacts>, change: Partial<ClusterFacts> = {}) =>
    findLoadBalancers({ ...NOT_INSTALLED, ...services({ ...PLAIN, ...service }), ...change }).length;
  const labels = { app: "traefik" };
  const named = { names: known({ names: [{ name: NAME, service: "ingress-nginx/edge" }], unread: [] }) };

  for (const [what, number] of [
    [
      "a target uses it, of any type",
      found({ ...NGINX, type: "ClusterIP", entries: [] }, { install: HEALTHY.install }),
    ],
    ["a name leads to it", found({}, named)],
    ["its labels are those of an ingress controller", found({ labels })],
    ["it serves port 80", found({ ports: [port(5432), port(80)] })],
    ["it serves port 443", found({ ports: [port(443)] })],
  ] as const) {
    test(what, () => assert.equal(number, 1));
  }

  test("other Services do not count", () => {
    assert.equal(found({}), 0);
    assert.equal(found({ type: "ClusterIP", entries: [], labels, ports: [port(80)] }, named), 0);
    assert.equal(found({ ports: [port(81), port(442)] }), 0);
    assert.equal(found({ labels, ports: [] }, named), 0, "one with UDP ports alone");
    const foreign = { "service.kubernetes.io/service-proxy-name": "other", ...labels };
    assert.equal(found({ entries: [], labels: foreign, ports: [port(80)] }), 0);
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

test("its names are those that lead to it: each once, in lower case, sorted, without wildcards", () => {
  const service = `${NGINX.namespace}/${NGINX.name}`;
  const all = ["B.example.com", "b.example.com", "*.example.com", "a.example.com"].map((name) => ({ name, service }));
  const others = [{ name: "c.example.com", service: undefined }];
  const names = known({ names: [...all, ...others], unread: [] });
  assert.deepEqual(findLoadBalancers({ ...HEALTHY, names })[0]?.names, ["a.example.com", "b.example.com"]);
  assert.deepEqual(findLoadBalancers({ ...HEALTHY, names: FORBIDDEN })[0]?.names, []);
});
