import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import type { Fact } from "./fact.ts";
import { gatherGateways, gatherIngresses, gatherNamespaces, gatherServices } from "./gather-cluster.ts";

const SERVICES = "/api/v1/namespaces/edge/services";
const INGRESSES = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
const GATEWAYS = "/apis/gateway.networking.k8s.io/v1/gateways";
const BETA_GATEWAYS = "/apis/gateway.networking.k8s.io/v1beta1/gateways";
const LISTED = { resourceVersion: "1" };

let server: MemoryServer;
beforeEach(() => {
  server = new MemoryServer();
});

function factValue<T>(fact: Fact<T>): T {
  assert.ok(fact.known, JSON.stringify(fact));
  return fact.value;
}

describe("Services", () => {
  test(
    "keeps labels, annotations, selector, literal addresses, " +
      "TCP ports, the load balancer's entries, externalIPs, source ranges and the types of conditions",
    async () => {
      server.add(SERVICES, "ingress", {
        metadata: { labels: { app: "traefik" }, annotations: { a: "b" } },
        spec: {
          type: "LoadBalancer",
          selector: { app: "pods" },
          externalIPs: ["192.0.2.2"],
          loadBalancerSourceRanges: ["203.0.113.0/24"],
          clusterIPs: ["198.51.100.1", "2001:db8::1"],
          ports: [
            { name: "web", port: 80, targetPort: "http", appProtocol: "kubernetes.io/ws", protocol: "TCP" },
            { port: 443, targetPort: 8443 },
            { port: 8080 },
            { name: "quic", port: 443, protocol: "UDP" },
          ],
        },
        status: {
          loadBalancer: { ingress: [{ ip: "192.0.2.1", ipMode: "Proxy" }, { hostname: "lb.example.com" }] },
          conditions: [{ type: "cilium.io/IPAMRequestSatisfied", status: "True" }, {}],
        },
      });
      assert.deepEqual(factValue(await gatherServices(server.client)), [
        {
          namespace: "edge",
          name: "ingress",
          type: "LoadBalancer",
          labels: { app: "traefik" },
          annotations: { a: "b" },
          selector: { app: "pods" },
          clusterIPs: ["198.51.100.1", "2001:db8::1"],
          ports: [
            { name: "web", port: 80, targetPort: "http", appProtocol: "kubernetes.io/ws" },
            { name: "", port: 443, targetPort: "8443", appProtocol: "" },
            { name: "", port: 8080, targetPort: "8080", appProtocol: "" },
          ],
          entries: [
            { ip: "192.0.2.1", ipMode: "Proxy" },
            { hostname: "lb.example.com" },
            { ip: "192.0.2.2", external: true },
          ],
          sourceRanges: ["203.0.113.0/24"],
          conditions: ["cilium.io/IPAMRequestSatisfied"],
        },
      ]);
    },
  );

  test("an empty Service has the type ClusterIP and no other facts", async () => {
    server.onCall = () => ({
      status: 200,
      body: {
        metadata: LISTED,
        items: [
          { metadata: {} },
          { metadata: {}, spec: { selector: null }, status: { loadBalancer: { ingress: null } } },
        ],
      },
    });
    const empty = { namespace: "", name: "", type: "ClusterIP", labels: {}, annotations: {}, selector: {} };
    const facts = { ...empty, clusterIPs: [], ports: [], entries: [], sourceRanges: [], conditions: [] };
    assert.deepEqual(factValue(await gatherServices(server.client)), [facts, facts]);
  });
});

describe("Ingresses", () => {
  test("keeps each host of the rules and of TLS once, the status' addresses and the class", async () => {
    server.add(INGRESSES, "shop", {
      spec: {
        ingressClassName: "nginx",
        rules: [{ host: "a.example.com" }, {}, { host: "b.example.com" }],
        tls: [{ hosts: ["b.example.com", "c.example.com"] }, { hosts: null }],
      },
      status: { loadBalancer: { ingress: [{ ip: "192.0.2.1", hostname: "lb.example.com" }, { hostname: "x" }, {}] } },
    });
    server.add(INGRESSES, "bare", {});
    server.add(INGRESSES, "null", { spec: { rules: null, tls: null }, status: { loadBalancer: { ingress: null } } });
    const none = { addresses: [], hosts: [], className: undefined };
    assert.deepEqual(factValue(await gatherIngresses(server.client)), [
      {
        kind: "Ingress",
        namespace: "shop",
        name: "shop",
        addresses: ["192.0.2.1", "lb.example.com", "x"],
        hosts: ["a.example.com", "b.example.com", "c.example.com"],
        className: "nginx",
      },
      { kind: "Ingress", namespace: "shop", name: "bare", ...none },
      { kind: "Ingress", namespace: "shop", name: "null", ...none },
    ]);
  });
});

describe("Gateways", () => {
  const gateway = {
    metadata: { namespace: "edge", name: "public" },
    spec: { gatewayClassName: "envoy", listeners: [{ hostname: "a.example.com" }, {}] },
    status: { addresses: [{ value: "192.0.2.1" }, {}, { value: "192.0.2.2" }] },
  };
  const served = (...paths: string[]) => {
    server.onCall = ({ path }) =>
      paths.includes(path) ? { status: 200, body: { metadata: LISTED, items: [gateway] } } : refusal(404, "NotFound");
  };
  const asked = () => server.calls.map(({ path }) => path);

  test("keeps the listeners' hosts, the status' addresses and the class, from v1 if it is served", async () => {
    served(GATEWAYS, BETA_GATEWAYS);
    assert.deepEqual(factValue(await gatherGateways(server.client)), [
      {
        kind: "Gateway",
        namespace: "edge",
        name: "public",
        addresses: ["192.0.2.1", "192.0.2.2"],
        hosts: ["a.example.com"],
        className: "envoy",
      },
    ]);
    assert.deepEqual(asked(), [GATEWAYS]);
  });

  test("lists v1beta1 where v1 is not served", async () => {
    served(BETA_GATEWAYS);
    assert.equal(factValue(await gatherGateways(server.client)).length, 1);
    assert.deepEqual(asked(), [GATEWAYS, BETA_GATEWAYS]);
  });

  test("a cluster without Gateway API has none", async () => {
    served();
    assert.deepEqual(factValue(await gatherGateways(server.client)), []);
  });

  test("a failed request does not mean that v1 is not served", async () => {
    server.onCall = () => refusal(500, "InternalError");
    const fact = await gatherGateways(server.client);
    assert.ok(!fact.known);
    assert.equal(fact.reason.code, "not-read");
    assert.deepEqual(asked(), [GATEWAYS]);
  });

  test("an empty Gateway has no addresses, hosts or class", async () => {
    server.onCall = () => ({
      status: 200,
      body: { metadata: LISTED, items: [{ metadata: {} }, { metadata: {}, spec: { listeners: null }, status: {} }] },
    });
    const empty = { kind: "Gateway", namespace: "", name: "", addresses: [], hosts: [], className: undefined };
    assert.deepEqual(factValue(await gatherGateways(server.client)), [empty, empty]);
  });
});

test("reads the namespaces by name, with their opt-in and mode", async () => {
  server.add("/api/v1/namespaces", "shop", {
    metadata: {
      labels: { "switchback.dev/inject": "enabled" },
      annotations: { "switchback.dev/on-change": "live" },
    },
  });
  server.add("/api/v1/namespaces", "other");
  assert.deepEqual(
    [...factValue(await gatherNamespaces(server.client))],
    [
      ["shop", { inject: "enabled", onChange: "live" }],
      ["other", { inject: undefined, onChange: undefined }],
    ],
  );
});

describe("the reason names a missing permission:", () => {
  for (const [gather, permission] of [
    [gatherServices, "list services"],
    [gatherIngresses, "list ingresses.networking.k8s.io"],
    [gatherGateways, "list gateways.gateway.networking.k8s.io"],
    [gatherNamespaces, "list namespaces"],
  ] as const) {
    test(permission, async () => {
      server.onCall = () => refusal(403, "Forbidden");
      const text = `missing permission: ${permission} in all namespaces`;
      assert.deepEqual(await gather(server.client), { known: false, reason: { code: "right-missing", text } });
    });
  }
});
