import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { gatherHttpSolvers } from "./gather-issuers.ts";

const CLUSTER_ISSUERS = "/apis/cert-manager.io/v1/clusterissuers";
const ISSUERS = "/apis/cert-manager.io/v1/issuers";
const LISTED = { status: 200, body: { metadata: { resourceVersion: "1" }, items: [] } };

let server: MemoryServer;
beforeEach(() => {
  server = new MemoryServer();
});

test("reads the HTTP-01 solvers of both kinds, and whether they wait instead of calling the name", async () => {
  const issuers = [
    {
      metadata: { name: "letsencrypt", namespace: "shop" },
      spec: {
        acme: {
          solvers: [
            { http01: { ingress: { ingressClassName: "nginx" } }, waitInsteadOfSelfCheck: "60s" },
            { http01: { gatewayHTTPRoute: {} } },
            { dns01: { route53: {} } },
            { http01: null },
          ],
        },
      },
    },
    { metadata: { name: "vault", namespace: "shop" }, spec: { vault: {} } },
    { metadata: { name: "bare", namespace: "shop" } },
    { metadata: { name: "none", namespace: "shop" }, spec: { acme: { solvers: null } } },
  ];
  server.onCall = ({ path }) => {
    if (path === CLUSTER_ISSUERS) {
      const spec = { acme: { solvers: [{ http01: { ingress: {} } }] } };
      return { ...LISTED, body: { ...LISTED.body, items: [{ metadata: { name: "all" }, spec }] } };
    }
    return path === ISSUERS ? { ...LISTED, body: { ...LISTED.body, items: issuers } } : undefined;
  };
  assert.deepEqual(await gatherHttpSolvers(server.client), {
    known: true,
    value: [
      { issuer: "ClusterIssuer all", waits: false },
      { issuer: "Issuer shop/letsencrypt", waits: true },
      { issuer: "Issuer shop/letsencrypt", waits: false },
    ],
  });
});

test("a cluster without cert-manager has no solvers; unreadable issuers are unknown", async () => {
  server.onCall = () => refusal(404, "NotFound");
  assert.deepEqual(await gatherHttpSolvers(server.client), { known: true, value: undefined });
  server.onCall = ({ path }) => (path === ISSUERS ? refusal(403, "Forbidden") : LISTED);
  assert.deepEqual(await gatherHttpSolvers(server.client), {
    known: false,
    reason: {
      code: "right-missing",
      text: "missing permission: list issuers.cert-manager.io in all namespaces",
    },
  });
});
