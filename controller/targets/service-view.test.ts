import assert from "node:assert/strict";
import { test } from "node:test";
import { checkConfig } from "#lib/config/parse.ts";
import type { RawService } from "#lib/kube/services.ts";
import { fc } from "#test/property.ts";
import { canonicalIp, foundName, isExposed, viewService } from "./service-view.ts";
import { targetOfService } from "./target.ts";

const RAW: RawService = {
  metadata: { namespace: "edge", name: "lb", creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: {
    type: "LoadBalancer",
    clusterIPs: ["10.96.0.7", "fd00::7"],
    ports: [{ port: 80 }, { port: 443, protocol: "TCP" }, { port: 443, protocol: "UDP" }],
  },
  status: { loadBalancer: { ingress: [{ ip: "203.0.113.9" }, { ip: "2001:DB8:0::9" }] } },
};

test("the view has the normalized addresses, the TCP ports and the ClusterIPs", () => {
  assert.deepEqual(viewService(RAW, "v2"), {
    namespace: "edge",
    name: "lb",
    created: "2026-01-01T00:00:00Z",
    target: foundName("edge", "lb"),
    exposed: true,
    foreign: false,
    inside: false,
    gateway: undefined,
    gatewayClass: undefined,
    addresses: ["203.0.113.9", "2001:db8::9"],
    assigned: ["203.0.113.9", "2001:db8::9"],
    leftAlone: [],
    hostnames: [],
    map: "auto",
    clusterIPs: ["10.96.0.7", "fd00::7"],
    ports: [
      { port: 80, protocol: "v2" },
      { port: 443, protocol: "v2" },
    ],
    selector: {},
    software: undefined,
  });
});

test("each entry of the status counts separately, and externalIPs are always short-circuited", () => {
  const view = (ingress: { ip?: string; hostname?: string; ipMode?: string }[], spec: object = {}) => {
    const { addresses, leftAlone, hostnames } = viewService(
      { ...RAW, spec: { ...RAW.spec, ...spec }, status: { loadBalancer: { ingress } } },
      "v1",
    );
    return [addresses, leftAlone, hostnames];
  };
  const proxy = { ip: "203.0.113.9", ipMode: "Proxy" };
  assert.deepEqual(view([proxy, { ip: "203.0.113.8", ipMode: "VIP" }]), [["203.0.113.8"], ["203.0.113.9"], []]);
  assert.deepEqual(view([{ hostname: "lb.example.net" }, { ip: "203.0.113.9", hostname: "x" }]), [
    ["203.0.113.9"],
    [],
    ["lb.example.net", "x"],
  ]);
  const externalIPs = ["203.0.113.9", "2001:DB8::1", "nonsense"];
  assert.deepEqual(view([proxy], { externalIPs }), [["203.0.113.9", "2001:db8::1"], [], []]);
  assert.deepEqual(view([proxy], { type: "ClusterIP", externalIPs }), [["203.0.113.9", "2001:db8::1"], [], []]);
  assert.deepEqual(viewService({ ...RAW, status: {} }, "v1").addresses, []);
  // A load balancer with both families, in front of a Service with one family, as with Hetzner.
  const both = [{ ip: "203.0.113.9" }, { ip: "2001:db8::9" }];
  assert.deepEqual(view(both, { clusterIPs: ["10.96.0.7"] }), [["203.0.113.9"], ["2001:db8::9"], []]);
  assert.deepEqual(view(both, { clusterIPs: ["fd00::7"] }), [["2001:db8::9"], ["203.0.113.9"], []]);
  assert.deepEqual(view(both, { clusterIPs: ["fd00::7", "10.96.0.7"] }), [["203.0.113.9", "2001:db8::9"], [], []]);
  const one = { clusterIPs: ["10.96.0.7"], externalIPs };
  assert.deepEqual(view([proxy], one), [["203.0.113.9"], ["2001:db8::1"], []]);
});

test("kube-proxy leaves alone the Services of another proxy, headless ones and external names", () => {
  const externalIPs = ["203.0.113.7"];
  const labels = { "service.kubernetes.io/service-proxy-name": "" };
  for (const raw of [
    { ...RAW, metadata: { ...RAW.metadata, labels } },
    { ...RAW, spec: { ...RAW.spec, type: "ExternalName", externalIPs } },
    { ...RAW, spec: { ...RAW.spec, type: "LoadBalancer", clusterIP: "None", clusterIPs: ["None"], externalIPs } },
    { ...RAW, spec: { ...RAW.spec, type: "ClusterIP", clusterIPs: ["None"], externalIPs } },
  ]) {
    const { exposed, addresses, assigned, leftAlone, hostnames } = viewService(raw, "v1", "always");
    assert.deepEqual([exposed, addresses, assigned, leftAlone, hostnames], [false, [], [], [], []]);
  }
});

test("kube-proxy handles externalIPs of any type, except for headless Services", () => {
  const exposed = (spec: RawService["spec"]) => isExposed({ ...RAW, spec: spec ?? {} });
  assert.ok(exposed({ type: "LoadBalancer" }));
  assert.ok(exposed({ type: "NodePort", clusterIP: "10.96.0.7", externalIPs: ["203.0.113.7"] }));
  assert.ok(!exposed({ type: "ClusterIP", clusterIP: "10.96.0.7" }));
  assert.ok(!exposed({ type: "ClusterIP", clusterIPs: ["None"], externalIPs: ["203.0.113.7"] }));
});

for (const [key, value, text] of [
  ["switchback.dev/map", "Always\u001b", 'is "Always\\u001b"; accepted are auto, always'],
  ["switchback.dev/proxy-protocol", "", 'is ""; accepted are v1, v2, none'],
] as const) {
  test(`an invalid value of ${key} is shown sanitized, with the accepted ones`, () => {
    const { flaw } = viewService({ ...RAW, metadata: { ...RAW.metadata, annotations: { [key]: value } } }, "v1");
    assert.deepEqual(flaw, { code: "annotation-invalid", text: `${key} ${text}` });
  });
}

test("addresses are normalized; other text is unchanged", () => {
  assert.equal(canonicalIp("2001:DB8::0:1"), "2001:db8::1");
  for (const text of ["203.0.113.9", "fe80::1%eth0", "lb.example.net", ""]) assert.equal(canonicalIp(text), text);
});

test("a Service without a TCP port yields a reason instead of a target", () => {
  const target = targetOfService(viewService({ ...RAW, spec: { ports: [{ port: 443, protocol: "UDP" }] } }, "v1"));
  assert.equal("code" in target && target.code, "service-without-port");
});

test("property: for any Service name, the target name is valid for a configured target", () => {
  const label = fc.stringMatching(/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/);
  fc.assert(
    fc.property(label, label, (namespace, name) => {
      const targets = [{ name: foundName(namespace, name), upstream: { host: "h" } }];
      assert.equal(checkConfig({ targets }).config !== undefined, true);
      assert.equal(foundName(namespace, name), foundName(namespace, name));
    }),
    { numRuns: 300 },
  );
});

test("ClusterIPs come from the list, else from the single field; a headless Service has none", () => {
  const clusterIPs = (spec: RawService["spec"]) => viewService({ ...RAW, spec: { ...spec } }, "v1").clusterIPs;
  assert.deepEqual(clusterIPs({ clusterIP: "10.96.0.1" }), ["10.96.0.1"]);
  assert.deepEqual(clusterIPs({ clusterIP: "10.96.0.1", clusterIPs: ["10.96.0.2"] }), ["10.96.0.2"]);
  assert.deepEqual([clusterIPs({ clusterIP: "None", clusterIPs: ["None"] }), clusterIPs({ clusterIP: "" })], [[], []]);
});

test("a target has at most 200 TCP ports, those of HTTP first; others, or without a number, do not count", () => {
  const ports = (count: number) => Array.from({ length: count }, (_, index) => ({ port: 1_000 - index }));
  const target = (list: object[]) => {
    const found = targetOfService(viewService({ ...RAW, spec: { ports: list as never } }, "v1"));
    return "code" in found ? [] : found.ports.map(({ port }) => port);
  };
  assert.equal(target([...ports(200), {}, { port: 9, protocol: "UDP" }, { port: 9, protocol: "SCTP" }]).length, 200);
  assert.deepEqual([target(ports(921)).length, ...target(ports(921)).slice(0, 3)], [200, 443, 80, 1_000]);
});

test("a target name is readable, truncated, valid and unambiguous, and begins with its namespace only once", () => {
  assert.match(foundName("ingress-nginx", "ingress-nginx-controller"), /^ingress-nginx-controller-[0-9a-f]{12}$/);
  assert.notEqual(foundName("a-b", "c"), foundName("a", "b-c"));
  assert.notEqual(foundName("n".repeat(63), "a"), foundName("n".repeat(63), "b"));
  assert.match(foundName("edge", "edge-lb"), /^edge-lb-[0-9a-f]{12}$/);
  assert.match(foundName("edge", "a.b"), /^edge-a-b-[0-9a-f]{12}$/);
  assert.match(foundName("n".repeat(40), "x"), /^n{39}-[0-9a-f]{12}$/);
  assert.match(foundName("e", `${"n".repeat(36)}-x`), /^e-n{36}-[0-9a-f]{12}$/, "no two hyphens at the cut");
});
