import assert from "node:assert/strict";
import { test } from "node:test";
import { nameOf, service, targetsOf } from "#test/fakes/target-table.ts";
import type { RoutingHints } from "../sources/types.ts";
import { findTarget } from "./find-target.ts";

// What counts as evidence for the Service that serves an object, and which target it gets.

const NGINX = { "app.kubernetes.io/name": "ingress-nginx" };
const NGINX_CLASS = { controller: "k8s.io/ingress-nginx" };
const ALWAYS = { "switchback.dev/map": "always" };
const EDGE = nameOf("edge/lb");
const upstream = (key: string) => ({ service: { namespace: key.split("/")[0], name: key.split("/")[1] } });
/** The default target, with its Service. */
const ONLY = { targets: [{ name: "only", upstream: upstream("ingress-nginx/ingress-nginx-controller") }] };
const OF_ONLY = "ingress-nginx/ingress-nginx-controller";
const DEFAULT = service(OF_ONLY, { ips: ["203.0.113.1"] });

// Without discovery, the class of an object decides, whatever its addresses.
const LISTED = [{ name: "nginx", upstream: upstream("edge/lb"), classes: ["nginx", "nginx-old"] }];
const TWO = ["nginx", "traefik"].map((name) => ({ name, upstream: upstream("edge/lb"), classes: [name] }));
for (const [targets, className, expected] of [
  [LISTED, "nginx-old", "nginx"],
  [LISTED, "traefik", "no-target"],
  [LISTED, undefined, "no-class"],
  [TWO, "traefik", "traefik"],
  [TWO, "Traefik", "no-target"],
  [ONLY.targets, undefined, "only"],
  [ONLY.targets, "anything", "only"],
  [ONLY.targets, "gce", "no-target"],
  [[], "nginx", "no-target"],
] as const) {
  const names = targets.map(({ name }) => name).join(", ");
  test(`without Services, class ${className ?? "(none)"} with targets ${names || "(none)"}: ${expected}`, () => {
    assert.equal(targetsOf({ targets }).find({ className, addresses: ["203.0.113.9"] }), expected);
  });
}

test("the reason names the class, sanitized, and the accepted classes", () => {
  const text = 'no target serves the ingress class "x\\n"; the targets list nginx, traefik';
  assert.equal(targetsOf({ targets: TWO }).explain({ className: "x\n" }), `no-target: ${text}`);
});

test("a configured target wins by its class, or if the Service is its upstream", () => {
  const targets = ["one", "two"].map((name) => ({ name, upstream: upstream(`edge/${name}`), classes: [name] }));
  const services = [service("edge/lb", { ips: ["203.0.113.9"] }), service("edge/two", { ips: ["203.0.113.2"] })];
  const { find } = targetsOf({ targets }, services);
  const at = (className: string | undefined, ...addresses: string[]) => find({ className, addresses });
  assert.deepEqual(
    [at("one", "203.0.113.9"), at("other", "203.0.113.2"), at("other", "203.0.113.9")],
    ["one", "two", EDGE],
  );
  assert.deepEqual([at("other"), at(undefined)], ["no-target", "no-class"]);
});

for (const [what, hints, expected] of [
  ["nothing says otherwise", { className: undefined }, "only"],
  ["its class is the default one of the software", {}, "only"],
  ["its class has the controller", { className: "edge", ...NGINX_CLASS }, "only"],
  ["its host name is of no Service", { addresses: ["lb.example.net"] }, "only"],
  ["its address is of no Service", { addresses: ["198.51.100.44"] }, "no-target"],
  ["GKE's class", { className: "gce" }, "no-target"],
  ["a class of AWS, with a host name", { className: "alb", addresses: ["x.elb.amazonaws.com"] }, "no-target"],
  ["the class of a cloud", { className: "agic", controller: "azure/application-gateway" }, "no-target"],
  ["the class of other software", { className: "kong" }, "no-target"],
  ["the controller of other software", { controller: "traefik.io/ingress-controller" }, "no-target"],
  ["an unknown controller", { controller: "example.com/ingress" }, "no-target"],
  ["an unknown class", { className: "nobody" }, "no-target"],
  ["a GatewayClass", { isGatewayClass: true }, "no-target"],
] as const) {
  test(`the default target: ${what}: ${expected}`, () => {
    assert.equal(targetsOf(ONLY, [DEFAULT, service("edge/lb", { ips: ["203.0.113.9"] })]).find(hints), expected);
  });
}

test("the default target serves names while its Service exists, unless pods reach its load balancer", () => {
  const { find, set, remove, table } = targetsOf(ONLY, []);
  assert.deepEqual([find({}), table.configured()], ["no-address", []]);
  set(DEFAULT);
  assert.deepEqual([find({}), table.configured().length], ["only", 1]);
  set(service(OF_ONLY, { hostnames: ["other.example.net"] }));
  assert.deepEqual([find({}), find({ addresses: ["lb.example.net"] })], Array(2).fill("load-balancer-hostname"));
  remove(OF_ONLY);
  assert.equal(find({}), "no-address");
});

test("a default target of unknown software serves objects that no known software serves", () => {
  const targets = [{ name: "only", upstream: upstream("edge/lb") }];
  const { find } = targetsOf({ targets }, [service("edge/lb", { type: "NodePort" })]);
  assert.equal(find({ className: "own", controller: "example.com/own" }), "only");
  assert.equal(find({ className: "gce" }), "no-target");
});

test("a default target outside the cluster is assumed to exist", () => {
  const { find, table } = targetsOf({ targets: [{ name: "only", upstream: { host: "lb.example.net" } }] }, []);
  assert.deepEqual([find({}), table.configured().length], ["only", 1]);
});

test("an object without an address gets the only Service with the labels of its controller", () => {
  const { find, set, explain } = targetsOf({}, [service("edge/lb", { ips: ["203.0.113.1"], labels: NGINX })]);
  assert.equal(find(NGINX_CLASS), EDGE);
  assert.equal(find({ ...NGINX_CLASS, addresses: ["lb.example.net"] }), EDGE, "a host name that no Service has");
  assert.equal(find({ className: "public", ...NGINX_CLASS }), EDGE, "the class may have any name");
  assert.equal(find({}), EDGE, "the class is one that it serves by default");
  assert.equal(find({ className: "public" }), "no-address", "of this class nothing is known");
  assert.equal(find({ controller: "traefik.io/ingress-controller" }), "no-address");
  assert.equal(find({ isGatewayClass: true }), "no-address", "a GatewayClass of that name is something else");
  assert.equal(find({ ...NGINX_CLASS, addresses: ["198.51.100.1"] }), "no-service", "its address is elsewhere");
  set(service("tenant/copy", { ips: ["203.0.113.2"], labels: NGINX }));
  assert.match(explain(NGINX_CLASS), /^several-services: .*edge\/lb, tenant\/copy.*configure the target by its class/);
  assert.equal(find(NGINX_CLASS, EDGE), EDGE, "the one that serves it already stays");
});

const REAL = "2026-02-01T00:00:00Z";
const OLDER = "2026-01-01T00:00:00Z";
const LATER = "2026-03-01T00:00:00Z";
const labelled = (key: string, parts: object = {}) =>
  service(key, { labels: NGINX, ips: ["203.0.113.1"], created: REAL, ...parts });
const edge = labelled("edge/lb");
const INSIDE = labelled("edge/lb", { type: "ClusterIP" });
/** ingress-nginx writes the ClusterIP of such a Service into the status. */
const OWN_IP = labelled("edge/lb", { type: "ClusterIP", external: ["2001:db8::1"], clusterIPs: ["fd00::7"] });
const EVERYWHERE = labelled("edge/lb", { annotations: ALWAYS });
const SEVERAL = "several-services";
const OWN_NAME = { controller: "k8s.io/ingress-nginx-internal" };
const [ROOT, FOO] = [labelled("tenant-root/lb"), labelled("tenant-foo/lb")];

/** What a tenant with copied labels can and cannot change. */
for (const [what, services, hints, expected] of [
  ["a later Service with the labels", [edge, labelled("tenant/x", { type: "ClusterIP", created: LATER })], {}, EDGE],
  ["one of the same age", [edge, labelled("tenant/x", { type: "ClusterIP" })], {}, EDGE],
  [
    "an older one may be the controller's",
    [edge, labelled("tenant/x", { type: "ClusterIP", created: OLDER })],
    {},
    SEVERAL,
  ],
  [
    "a load balancer of a tenant, and none of the controller",
    [INSIDE, labelled("tenant/x", { created: LATER })],
    {},
    SEVERAL,
  ],
  ["the same, mapped always", [INSIDE, labelled("tenant/x", { created: OLDER, annotations: ALWAYS })], {}, SEVERAL],
  ["copied labels, and a default target", "default", {}, "only"],
  ["two installations", [edge, labelled("inner/lb")], {}, SEVERAL],
  ["the own ClusterIP in the status", [OWN_IP], { addresses: ["FD00:0::7"] }, EDGE],
  ["another IP in the status", [OWN_IP], { addresses: ["fd00::8"] }, "no-service"],
  ["the own ClusterIP and another IP", [OWN_IP], { addresses: ["fd00::7", "198.51.100.1"] }, "no-service"],
  [
    "a ClusterIP that a tenant asked for",
    [OWN_IP, labelled("tenant/x", { clusterIPs: ["10.96.0.9"] })],
    { addresses: ["10.96.0.9"] },
    SEVERAL,
  ],
  ["a controller's own name", [edge], OWN_NAME, "no-address"],
  ["a controller's own name, mapped always", [EVERYWHERE], OWN_NAME, "no-address"],
  ["a controller's own name, and a host name", [edge], { ...OWN_NAME, addresses: ["lb.example.net"] }, "no-service"],
  ["a controller's own name, and the ClusterIP", [edge], { ...OWN_NAME, addresses: ["10.96.0.7"] }, EDGE],
  ["labels alone, mapped always", [EVERYWHERE], {}, "no-address"],
  ["no address that is short-circuited", [labelled("edge/lb", { ips: [], hostnames: ["a.net"] })], {}, "no-address"],
  ["Cozystack's controller of another namespace", [ROOT, FOO], { controller: "k8s.io/ingress-nginx-other" }, SEVERAL],
  [
    "Cozystack's controller of a namespace",
    [ROOT, FOO],
    { controller: "k8s.io/ingress-nginx-tenant-foo" },
    "no-address",
  ],
  ["a namespace called nginx", [ROOT, labelled("nginx/copy")], {}, SEVERAL],
] as const) {
  test(`the Service of a controller: ${what}: ${expected}`, () => {
    const { find } =
      services === "default" ? targetsOf(ONLY, [DEFAULT, labelled("tenant/x")]) : targetsOf({}, services);
    assert.equal(find({ ...NGINX_CLASS, ...(hints as Partial<RoutingHints>) }), expected);
  });
}

test("of two load balancers with the labels, a new name gets the one that other names of its namespace have", () => {
  const { table } = targetsOf({}, [edge, labelled("tenant/copy", { created: OLDER })]);
  const hints = { className: "nginx", addresses: [], admitted: true };
  const of = (...targets: string[]) => {
    const isOfNamespace = (target: string) => targets.includes(target);
    const { target } = findTarget(hints, { held: undefined, isOfNamespace }, table);
    return typeof target === "string" ? target : target.code;
  };
  assert.deepEqual([of(EDGE), of(), of(EDGE, nameOf("tenant/copy"))], [EDGE, SEVERAL, SEVERAL]);
});

test("an object without a target has that of its class for DNS, if there is only one", () => {
  const lackingOf = (...services: Parameters<typeof service>[]) => {
    const all = services.map((one) => service(...one));
    const { table } = targetsOf({}, all);
    const hints = { className: "nginx", addresses: ["198.51.100.1"], admitted: true };
    return findTarget(hints, { held: undefined }, table).lacking;
  };
  const lb = ["edge/lb", { labels: NGINX, ips: ["203.0.113.1"] }] as const;
  assert.deepEqual(lackingOf([...lb]), { byClass: EDGE });
  assert.deepEqual(lackingOf([...lb], ["tenant/copy", { labels: NGINX }]), { byClass: undefined });
});

test("a name keeps its target while evidence is only missing, until something speaks against it", () => {
  const { find, remove } = targetsOf({}, [service("edge/lb", { ips: ["203.0.113.1"], labels: NGINX })]);
  const kept = `${EDGE}?`;
  assert.equal(find({ className: "public" }, EDGE), kept);
  assert.equal(find({ className: "public", addresses: ["lb.example.net"] }, EDGE), kept);
  assert.equal(find({ className: "public", addresses: ["198.51.100.1"] }, EDGE), "no-service", "an IP elsewhere");
  assert.equal(find({ className: "gce" }, EDGE), "no-address", "a class outside the cluster");
  assert.equal(find({ controller: "traefik.io/ingress-controller" }, EDGE), "no-address", "other software");
  remove("edge/lb");
  assert.equal(find({ className: "public" }, EDGE), "no-address", "its Service is gone");
  const of = targetsOf({ targets: TWO }).find;
  assert.deepEqual([of({ className: undefined }, "nginx"), of({ className: "x" }, "nginx")], ["nginx?", "no-target"]);
});
