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

// Tests what counts as evidence, besides addresses, for the Service that serves an object.

const SERVICES = "/api/v1/services";
const SETTLE_MS = 20;
const NGINX = { "app.kubernetes.io/name": "ingress-nginx" };

interface Parts {
  readonly type?: string;
  readonly ips?: readonly string[];
  readonly external?: readonly string[];
  readonly hostname?: string;
  readonly ports?: readonly number[];
  readonly created?: string;
  readonly labels?: object;
  readonly annotations?: object;
  readonly clusterIP?: string;
}

function service(key: string, parts: Parts = {}): ApiObject {
  const { type = "LoadBalancer", ips = [], external, hostname, ports = [80, 443], clusterIP = "10.96.0.7" } = parts;
  const { created = "2026-01-01T00:00:00Z", labels = {}, annotations = {} } = parts;
  const [namespace, name] = key.split("/");
  const ingress = [...ips.map((ip) => ({ ip })), ...(hostname === undefined ? [] : [{ hostname }])];
  return {
    metadata: { namespace, name, creationTimestamp: created, labels, annotations },
    spec: {
      type,
      clusterIPs: [clusterIP],
      ...(external && { externalIPs: external }),
      ports: ports.map((port) => ({ port })),
    },
    status: { loadBalancer: { ingress } },
  } as unknown as ApiObject;
}

async function cluster(t: TestContext, config: object, ...services: readonly ApiObject[]) {
  const pass = stopTime(t);
  const api = new MemoryKube();
  for (const each of services) api.set(SERVICES, each);
  const discovery = new TargetDiscovery({ client: api.client, config: parseConfig(config), log: silentLogger });
  t.after(() => discovery.stop());
  /** Objects that are resolved again after each change. */
  const objects: Partial<RoutingHints>[] = [];
  discovery.start(
    () => {
      for (const hints of objects) resolve(hints);
    },
    () => {},
  );
  await settled();
  await pass(SETTLE_MS);
  function resolve(hints: Partial<RoutingHints>, incumbent?: string): string {
    const target = discovery.resolve({ className: "nginx", addresses: [], admitted: true, ...hints }, incumbent);
    return typeof target === "string" ? target : target.code;
  }
  const add = async (hints: Partial<RoutingHints>) => {
    objects.push(hints);
    const target = resolve(hints);
    await pass(SETTLE_MS);
    return target;
  };
  const text = (hints: Partial<RoutingHints>) => {
    const target = discovery.resolve({ className: "nginx", addresses: [], admitted: true, ...hints });
    return typeof target === "string" ? target : target.text;
  };
  const portsOf = (key: string) => {
    const [namespace = "", name = ""] = key.split("/");
    const target = discovery.found(foundName(namespace, name));
    return target?.ports.map(({ port, upstreamIPs }) => [port, ...(upstreamIPs ?? [])].join(" ")).sort();
  };
  const set = async (each: ApiObject) => {
    api.set(SERVICES, each);
    await settled();
    await pass(SETTLE_MS);
  };
  return { api, pass, discovery, resolve, objects, add, text, portsOf, set };
}

const EDGE = foundName("edge", "lb");
const NONE = { targets: [] };
const NGINX_CLASS = { controller: "k8s.io/ingress-nginx" };

/** The default target is `ingress-nginx/ingress-nginx-controller`. */
const DEFAULT = service("ingress-nginx/ingress-nginx-controller", { ips: ["203.0.113.1"] });

test("an object without an address gets the only Service with the labels of its controller", async (t) => {
  const { resolve, set, text } = await cluster(t, NONE, service("edge/lb", { ips: ["203.0.113.1"], labels: NGINX }));
  assert.equal(resolve(NGINX_CLASS), EDGE);
  assert.equal(resolve({ ...NGINX_CLASS, addresses: ["lb.example.net"] }), EDGE, "a host name that no Service has");
  assert.equal(resolve({ className: "public", ...NGINX_CLASS }), EDGE, "the class may have any name");
  assert.equal(resolve({}), EDGE, "the class is one that it serves by default");
  assert.equal(resolve({ className: "public" }), "no-address", "of this class nothing is known");
  assert.equal(resolve({ controller: "traefik.io/ingress-controller" }), "no-address");
  assert.equal(resolve({ isGatewayClass: true }), "no-address", "a GatewayClass of that name is something else");
  assert.equal(resolve({ ...NGINX_CLASS, addresses: ["198.51.100.1"] }), "no-service", "its address is elsewhere");
  await set(service("tenant/copy", { ips: ["203.0.113.2"], labels: NGINX }));
  assert.equal(resolve(NGINX_CLASS), "several-services");
  assert.match(text(NGINX_CLASS), /edge\/lb, tenant\/copy; configure the target by its class/);
  assert.equal(resolve(NGINX_CLASS, EDGE), EDGE, "the one that serves it already stays");
});

test("once a status leads to the controller's Service, a tenant's copy keeps no name from it", async (t) => {
  const lb = service("edge/lb", { ips: ["203.0.113.1"], labels: NGINX });
  const copy = service("tenant/copy", { ips: ["203.0.113.2"], labels: NGINX, created: "2025-01-01T00:00:00Z" });
  const { resolve, add, objects, set } = await cluster(t, NONE, lb, copy);
  assert.equal(resolve(NGINX_CLASS), "several-services");
  assert.equal(await add({ ...NGINX_CLASS, addresses: ["203.0.113.1"] }), EDGE);
  assert.equal(resolve(NGINX_CLASS), EDGE);
  assert.equal(resolve({ ...NGINX_CLASS, className: "other" }), "several-services", "of that class nothing is known");
  // With the object, its evidence goes.
  objects.length = 0;
  await set(service("any/other"));
  assert.equal(resolve(NGINX_CLASS), "several-services");
});

test("a status of other software is no evidence: a tenant chooses the address of its own Gateway", async (t) => {
  const lb = service("edge/lb", { ips: ["203.0.113.1"], labels: NGINX });
  const copy = service("tenant/copy", { ips: ["203.0.113.2"], labels: NGINX });
  const { resolve, add } = await cluster(t, NONE, lb, copy);
  const gateway = { controller: "gateway.envoyproxy.io/gatewayclass-controller", isGatewayClass: true } as const;
  assert.equal(await add({ ...gateway, addresses: ["203.0.113.2"] }), foundName("tenant", "copy"));
  assert.deepEqual([resolve(NGINX_CLASS), resolve(gateway)], ["several-services", "no-address"]);
});

test("copied labels take no names from the default target, even if its Service has no such labels", async (t) => {
  const copy = service("tenant/copy", { ips: ["203.0.113.2"], labels: NGINX });
  const { resolve } = await cluster(t, {}, DEFAULT, copy);
  assert.equal(resolve(NGINX_CLASS), "ingress-nginx");
  assert.equal(resolve({ addresses: ["lb.example.net"] }), "ingress-nginx");
});

test("a Service without a short-circuited address gets names by its class once a status leads to it", async (t) => {
  const hostname = { hostname: "lb.example.net", labels: NGINX };
  const { resolve, set, add } = await cluster(t, NONE, service("edge/lb", hostname));
  const isUnknown = () => {
    assert.equal(resolve(NGINX_CLASS), "no-address");
    assert.equal(resolve({ ...NGINX_CLASS, addresses: ["198.51.100.1"] }), "no-service");
  };
  isUnknown();
  await set(service("edge/lb", { ...hostname, annotations: { "switchback.dev/map": "always" } }));
  // A tenant copies labels, and neither a status nor DNS would speak against its Service.
  isUnknown();
  assert.equal(await add({ ...NGINX_CLASS, addresses: ["lb.example.net"] }), EDGE);
  assert.equal(resolve(NGINX_CLASS), EDGE);
  assert.equal(resolve({ ...NGINX_CLASS, addresses: ["198.51.100.1"] }), EDGE);
});

for (const [what, hints, expected] of [
  ["nothing says otherwise", { className: undefined }, "ingress-nginx"],
  ["its class is the default one of the software", {}, "ingress-nginx"],
  ["its class has the controller", { className: "edge", ...NGINX_CLASS }, "ingress-nginx"],
  ["its host name is of no Service", { addresses: ["lb.example.net"] }, "ingress-nginx"],
  ["its address is of no Service", { addresses: ["198.51.100.44"] }, "another-controller"],
  ["GKE's class", { className: "gce" }, "another-controller"],
  ["a class of AWS, with a host name", { className: "alb", addresses: ["x.elb.amazonaws.com"] }, "another-controller"],
  ["the class of a cloud", { className: "agic", controller: "azure/application-gateway" }, "another-controller"],
  ["the class of other software", { className: "kong" }, "another-controller"],
  ["the controller of other software", { controller: "traefik.io/ingress-controller" }, "another-controller"],
  ["an unknown controller", { controller: "example.com/ingress" }, "another-controller"],
  ["an unknown class", { className: "nobody" }, "another-controller"],
  ["a GatewayClass", { isGatewayClass: true }, "another-controller"],
] as const) {
  test(`the default target: ${what}: ${expected}`, async (t) => {
    const other = service("edge/lb", { ips: ["203.0.113.9"] });
    const { resolve } = await cluster(t, {}, DEFAULT, other);
    assert.equal(resolve(hints), expected);
  });
}

test("a default target of unknown software serves objects that no known software serves", async (t) => {
  const upstream = { service: { namespace: "edge", name: "lb" } };
  const { resolve } = await cluster(
    t,
    { targets: [{ name: "only", upstream }] },
    service("edge/lb", { type: "NodePort" }),
  );
  assert.equal(resolve({ className: "own" }), "only");
  assert.equal(resolve({ className: "own", controller: "example.com/own" }), "only");
  assert.equal(resolve({ className: "gce" }), "another-controller");
});

test("a Service of any type is found by an externalIP that is in the status of an object", async (t) => {
  const external = service("edge/lb", { type: "NodePort", external: ["203.0.113.7"] });
  const { resolve, set } = await cluster(t, NONE, external);
  assert.equal(resolve({ addresses: ["203.0.113.7"] }), EDGE);
  await set(service("edge/lb", { type: "NodePort" }));
  assert.equal(resolve({ addresses: ["203.0.113.7"] }), "no-service");
});

test("DNS leads to a Service by an address of its load balancer, whatever externalIPs a tenant writes", async (t) => {
  const created = "2025-01-01T00:00:00Z";
  const external = service("tenant/lb", { type: "NodePort", external: ["203.0.113.1", "198.51.100.1"], created });
  const { discovery } = await cluster(t, NONE, external, service("edge/lb", { ips: ["203.0.113.1"] }));
  assert.equal(discovery.targetAt("203.0.113.1"), EDGE);
  assert.equal(discovery.targetAt("198.51.100.1"), undefined);
  assert.deepEqual(discovery.addressesOf(foundName("tenant", "lb")), ["203.0.113.1", "198.51.100.1"]);
});

test("a Service without a port of the object is not chosen", async (t) => {
  const { resolve, text } = await cluster(t, NONE, service("edge/lb", { ips: ["203.0.113.1"], ports: [8443] }));
  assert.equal(resolve({ addresses: ["203.0.113.1"] }), "service-without-port");
  assert.match(text({ addresses: ["203.0.113.1"] }), /^edge\/lb: no Service .* ports 80, 443$/);
  assert.equal(resolve({ addresses: ["203.0.113.1"], ports: [8443] }), EDGE);
});

const SHARED = { ips: ["203.0.113.1"] };
/** Two Services with one address. Each has a port that the other lacks. */
const HTTP = service("edge/lb", { ...SHARED, ports: [80] });
const HTTPS = service("edge/tls", {
  ...SHARED,
  ports: [443],
  clusterIP: "10.96.0.8",
  created: "2026-01-02T00:00:00Z",
});

test("a port that the Service lacks is borrowed from the Service that has it at the same address", async (t) => {
  const { resolve, portsOf, set, api, pass } = await cluster(t, NONE, HTTP, HTTPS);
  assert.equal(resolve({ addresses: ["203.0.113.1"] }), EDGE);
  assert.deepEqual(portsOf("edge/lb"), ["443 10.96.0.8", "80"]);
  // A later Service changes nothing, whatever its annotations say.
  const annotations = { "switchback.dev/map": "always" };
  const late = { ...SHARED, ports: [443], clusterIP: "10.96.0.9", created: "2026-01-03T00:00:00Z", annotations };
  await set(service("a-tenant/late", late));
  resolve({ addresses: ["203.0.113.1"] });
  assert.deepEqual(portsOf("edge/lb"), ["443 10.96.0.8", "80"]);
  api.unset(SERVICES, "edge/tls");
  await pass(SETTLE_MS);
  resolve({ addresses: ["203.0.113.1"] });
  assert.deepEqual(portsOf("edge/lb"), ["443 10.96.0.9", "80"]);
});

test("only ports 80 and 443 are borrowed", async (t) => {
  const nodes = { ips: ["192.168.1.11", "192.168.1.12"] };
  const web = service("edge/lb", { ...nodes, ports: [443] });
  const others = [80, 5_432, 8_443].map((port) => service(`tenant/p${port}`, { ...nodes, ports: [port] }));
  const { resolve, portsOf } = await cluster(t, NONE, web, ...others);
  resolve({ addresses: nodes.ips, ports: [443, 8_443] });
  assert.deepEqual(portsOf("edge/lb"), ["443", "80 10.96.0.7"]);
});

test("an older Service that has a load balancer's address in its externalIPs takes no names from it", async (t) => {
  const copy = service("tenant/copy", { external: ["203.0.113.1"], created: "2025-01-01T00:00:00Z" });
  const { resolve } = await cluster(t, NONE, service("edge/lb", { ips: ["203.0.113.1"] }), copy);
  assert.equal(resolve({ addresses: ["203.0.113.1"] }), EDGE);
});

test("a Service with the same host name takes no names from the one that serves them, whatever its age", async (t) => {
  const hostname = "lb.example.net";
  const always = { hostname, annotations: { "switchback.dev/map": "always" } };
  const late = service("tenant/late", { ...always, created: "2026-02-01T00:00:00Z" });
  const { resolve, set } = await cluster(t, NONE, service("edge/lb", { hostname }), late);
  // It serves its own names. That gives it no claim to the names of others.
  const own = resolve({ service: { namespace: "tenant", name: "late" } });
  assert.equal(own, foundName("tenant", "late"));
  assert.equal(resolve({ addresses: [hostname] }), "load-balancer-hostname");
  await set(service("edge/lb", always));
  // A Service may be older than its host name.
  assert.equal(resolve({ addresses: [hostname] }), "several-services");
  assert.equal(resolve({ addresses: [hostname] }, EDGE), EDGE);
});
