import assert from "node:assert/strict";
import { test } from "node:test";
import { nameOf, service, targetsOf } from "#test/fakes/target-table.ts";
import type { RoutingHints } from "../sources/types.ts";

// Objects that choose their target, or name the pods that serve them.

const upstream = (key: string) => ({ service: { namespace: key.split("/")[0], name: key.split("/")[1] } });
/** The default target, with its Service. */
const OF_ONLY = "infra/only";
const ONLY = { targets: [{ name: "only", upstream: upstream(OF_ONLY) }] };
const INFRA = ["edge", "vip"].map((name) => ({ name, classes: [name], upstream: upstream(`infra/${name}`) }));
const policy = (targets: readonly object[], more: object = {}) => ({ policy: { targets, ...more } });
/** By its class, the object would get the target `edge`. */
const choice = (target: string, namespace = "shop", more: Partial<RoutingHints> = {}) => ({
  className: "edge",
  chosen: { target, namespace },
  ...more,
});
const SHOP = policy([{ namespaces: ["shop"], targets: ["*"] }]);

test("no namespace may choose a target without a rule", () => {
  const { find, explain } = targetsOf({ targets: INFRA });
  const text = 'the target "vip" is not allowed (switchback.dev/target in the namespace shop); it may choose no target';
  assert.equal(explain(choice("vip")), `target-not-allowed: ${text} (policy.targets)`);
  assert.equal(find(choice("edge")), "target-not-allowed", "also the one that it would have without the choice");
  assert.equal(find({ className: "edge" }), "edge");
});

test("a rule allows targets to namespaces; the text lists only what the namespace may choose", () => {
  const rules = [
    { namespaces: ["shop", "blog"], targets: ["vip"] },
    { namespaces: ["platform"], targets: ["*"] },
    { namespaces: ["*"], targets: ["common"] },
  ];
  const { find, explain } = targetsOf({ targets: INFRA, ...policy(rules) });
  assert.deepEqual([find(choice("vip")), find(choice("edge", "platform"))], ["vip", "edge"]);
  const refusal = (chosen: string, namespace: string) =>
    /; it may choose (.*) \(/.exec(explain(choice(chosen, namespace)))?.[1];
  assert.equal(refusal("edge", "shop"), "vip, common");
  assert.equal(refusal("vip", "other"), "common");
  assert.equal(refusal("nobody", "platform"), "edge, vip, discovered targets");
});

test("a namespace without permission does not learn whether a target exists; odd names yield a reason", () => {
  const { explain } = targetsOf({ targets: INFRA, ...policy([{ namespaces: ["platform"], targets: ["*"] }]) });
  const withoutName = (text: string) => text.replaceAll(/"[^"]*"/g, "NAME");
  assert.equal(withoutName(explain(choice("vip"))), withoutName(explain(choice("nobody"))));
  for (const odd of ["", "*", "__proto__", "constructor", "edge\n", "e".repeat(64), "\u0000"]) {
    assert.match(explain(choice(odd)), /^target-not-allowed: /);
    assert.match(explain(choice(odd, "platform")), /^target-not-allowed: there is no target [ -~]+$/);
  }
  for (const namespace of ["__proto__", "*", ""])
    assert.match(explain(choice("vip", namespace)), /^target-not-allowed/);
});

test("if admission is required, objects that no controller has admitted wait; a choice is no admission", () => {
  const { find } = targetsOf({
    targets: INFRA,
    ...policy([{ namespaces: ["*"], targets: ["*"] }], { requireAdmitted: true }),
  });
  const waiting = { className: "edge", admitted: false };
  assert.deepEqual([find({ className: "edge" }), find(waiting)], ["edge", "not-admitted"]);
  assert.deepEqual([find(choice("vip")), find(choice("vip", "shop", waiting))], ["vip", "not-admitted"]);
});

test("an object can choose a discovered target, whose Service decides whether a mapping is needed", () => {
  const { find, remove } = targetsOf({ targets: INFRA, ...SHOP }, [
    service("infra/plain", { ips: ["203.0.113.7"] }),
    service("infra/proxied", { ips: ["203.0.113.8"], ipMode: "Proxy" }),
    service("infra/inside", { type: "ClusterIP" }),
  ]);
  const plain = nameOf("infra/plain");
  assert.equal(find(choice(plain)), plain);
  assert.equal(find(choice(nameOf("infra/proxied"))), "ip-mode-proxy");
  assert.equal(find(choice(nameOf("infra/inside"))), "target-not-allowed", "it is no load balancer");
  assert.equal(find(choice(plain, "blog")), "target-not-allowed");
  remove("infra/plain");
  assert.equal(find(choice(plain)), "target-not-allowed", "its Service is gone");
});

test("an object can choose a configured target, whatever its class, address and selector", () => {
  const { find } = targetsOf({ targets: INFRA, ...SHOP }, [service("infra/other", { ips: ["203.0.113.9"] })]);
  assert.equal(find(choice("vip", "shop", { className: undefined, addresses: ["203.0.113.9"] })), "vip");
  assert.equal(find(choice("vip", "shop", { className: "istio", selector: { istio: "egressgateway" } })), "vip");
});

test("an object can choose the target without classes if its Service exists", () => {
  const { find, set } = targetsOf({ ...ONLY, ...SHOP }, []);
  assert.equal(find(choice("only", "shop", { className: "gce" })), "target-missing");
  set(service(OF_ONLY, { labels: { "app.kubernetes.io/name": "ingress-nginx" } }));
  assert.equal(find(choice("only", "shop", { className: "gce" })), "only");
  assert.equal(find({ className: "gce" }), "no-target");
});

test("a Service of another service proxy is no target by class, by choice, by address, by name and by default", () => {
  const parts = { ips: ["203.0.113.7"], labels: { "service.kubernetes.io/service-proxy-name": "other" } };
  const foreign = ["infra/edge", "infra/found"].map((key) => service(key, parts));
  const { find, set, table } = targetsOf({ targets: INFRA, ...SHOP }, foreign);
  const own = { service: { namespace: "infra", name: "found" } };
  const found = nameOf("infra/found");
  assert.deepEqual([find({ className: "edge" }), find(choice("edge"))], ["target-missing", "target-missing"]);
  assert.deepEqual([find(choice(found)), find(own)], ["target-not-allowed", "no-service"]);
  assert.deepEqual([find({ addresses: ["203.0.113.7"] }), table.targetAt("203.0.113.7")], ["no-target", undefined]);
  set(service("infra/found", { ips: ["203.0.113.8"] }));
  assert.deepEqual([find(choice(found)), find(own)], [found, found], "without the label it is one");
  const only = targetsOf({ ...ONLY, ...SHOP }, [service(OF_ONLY, parts)]);
  assert.deepEqual([only.find(choice("only")), only.table.configured()], ["target-missing", []]);
  assert.notEqual(only.find({}), "only");
});

const GATEWAY = { istio: "ingressgateway" };
const EGRESS = { istio: "egressgateway" };
const istio = (name: string, className = `${name}-class`) => ({
  name,
  upstream: upstream(`edge/${name}`),
  classes: [className],
});
const selecting = (name: string, selector: Readonly<Record<string, string>> = GATEWAY) =>
  service(`edge/${name}`, { ips: ["203.0.113.9"], selector });
const OUTSIDE = { name: "outside", upstream: { host: "gateway.example.net" } };
const NONE = "no-gateway-service";
const ISTIO_CASES: ReadonlyArray<
  readonly [string, readonly object[], readonly ReturnType<typeof service>[], Partial<RoutingHints>, string]
> = [
  [
    "the Service has all labels of the Gateway",
    [istio("edge", "istio")],
    [selecting("edge", { ...GATEWAY, app: "x" })],
    {},
    "edge",
  ],
  [
    "the Service lacks a label",
    [istio("edge", "istio")],
    [selecting("edge")],
    { selector: { ...GATEWAY, app: "x" } },
    NONE,
  ],
  ["an egress gateway", [istio("edge", "istio")], [selecting("edge")], { selector: EGRESS }, NONE],
  ["a Gateway without a selector", [istio("edge", "istio")], [selecting("edge")], { selector: {} }, NONE],
  [
    "the selector counts before the class",
    [istio("edge", "istio"), istio("inner")],
    [selecting("edge"), selecting("inner", EGRESS)],
    { selector: EGRESS },
    "inner",
  ],
  ["the target without classes", [{ name: "only", upstream: upstream("edge/only") }], [selecting("only")], {}, "only"],
  ["no discovered Service is selected, because tenants copy labels", [], [selecting("copy")], {}, NONE],
  [
    "exported to the namespace of the Service",
    [istio("edge")],
    [selecting("edge")],
    { exportedTo: ["shop", "edge"] },
    "edge",
  ],
  ["exported to other namespaces only", [istio("edge")], [selecting("edge")], { exportedTo: ["shop"] }, "not-allowed"],
  [
    "several Services have the labels",
    [istio("one"), istio("two")],
    [selecting("one"), selecting("two")],
    {},
    "several-services",
  ],
  [
    "one of them lists the class",
    [istio("one"), istio("two")],
    [selecting("one"), selecting("two")],
    { className: "two-class" },
    "two",
  ],
  ["a host outside lists the class", [{ ...OUTSIDE, classes: ["istio"] }], [], {}, "outside"],
  ["a host outside lists another class", [{ ...OUTSIDE, classes: ["other"] }], [], {}, NONE],
  ["a host outside is the only target, without classes", [OUTSIDE], [], {}, "outside"],
];
for (const [what, targets, services, hints, expected] of ISTIO_CASES) {
  test(`Istio: ${what}: ${expected}`, () => {
    const { find } = targetsOf({ targets, sources: { presets: ["istio-gateway"] } }, services);
    assert.equal(find({ className: "istio", selector: GATEWAY, ...hints }), expected);
  });
}
