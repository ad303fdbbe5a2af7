import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import type { Fact } from "./fact.ts";
import { gatherNamespaces, gatherSelfChecks, gatherServices } from "./gather-cluster.ts";

const SERVICES = "/api/v1/namespaces/edge/services";
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
            { name: "web", port: 80, appProtocol: "kubernetes.io/ws", protocol: "TCP" },
            { port: 443 },
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
            { name: "web", port: 80, appProtocol: "kubernetes.io/ws" },
            { name: "", port: 443, appProtocol: "" },
            { name: "", port: 8080, appProtocol: "" },
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

  test("a Service of another service proxy has no address that kube-proxy may short-circuit", async () => {
    server.add(SERVICES, "foreign", {
      metadata: { labels: { "service.kubernetes.io/service-proxy-name": "other" } },
      spec: { type: "LoadBalancer", externalIPs: ["192.0.2.2"], clusterIPs: ["198.51.100.1"] },
      status: { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } },
    });
    assert.deepEqual(factValue(await gatherServices(server.client))[0]?.entries, []);
  });

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

describe("cert-manager checks a name itself", () => {
  const CLUSTER_ISSUERS = "/apis/cert-manager.io/v1/clusterissuers";
  const ISSUERS = "/apis/cert-manager.io/v1/namespaces/shop/issuers";
  const issuer = (...solvers: object[]) => ({ spec: { acme: { solvers } } });
  const checks = async () => await gatherSelfChecks(server.client);

  test("if a solver for HTTP-01 does not wait instead", async () => {
    server.add(CLUSTER_ISSUERS, "a", issuer({ dns01: {} }, { http01: {}, waitInsteadOfSelfCheck: "60s" }));
    server.add(ISSUERS, "b", issuer({ http01: null }));
    server.add(ISSUERS, "c", { spec: {} });
    assert.equal(factValue(await checks()), false);
    server.add(ISSUERS, "d", issuer({ http01: {} }));
    assert.equal(factValue(await checks()), true);
  });

  test("not in a cluster without cert-manager", async () => {
    server.onCall = () => refusal(404, "NotFound");
    assert.equal(factValue(await checks()), false);
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
    [gatherSelfChecks, "list clusterissuers.cert-manager.io"],
    [gatherNamespaces, "list namespaces"],
  ] as const) {
    test(permission, async () => {
      server.onCall = () => refusal(403, "Forbidden");
      const text = `missing permission: ${permission} in all namespaces`;
      assert.deepEqual(await gather(server.client), { known: false, reason: { code: "right-missing", text } });
    });
  }
});
