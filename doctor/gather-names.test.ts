import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { notKnown } from "./fact.ts";
import type { InstallFacts } from "./facts.ts";
import { gatherNames } from "./gather-names.ts";

const SERVICES = "/api/v1/namespaces/edge/services";
const INGRESSES = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";

let server: MemoryServer;
beforeEach(() => {
  server = new MemoryServer();
});

const gather = (install: Partial<InstallFacts> = {}) =>
  gatherNames({ client: server.client, namespace: "ours", install: { ...NOT_INSTALLED.install, ...install } });

function addShop(): void {
  server.add(SERVICES, "ingress-nginx-controller", {
    metadata: { resourceVersion: "1", labels: { "app.kubernetes.io/name": "ingress-nginx" } },
    spec: { type: "LoadBalancer", clusterIP: "198.51.100.1", clusterIPs: ["198.51.100.1"], ports: [{ port: 443 }] },
    status: { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } },
  });
  server.add(INGRESSES, "shop", {
    metadata: { resourceVersion: "1" },
    spec: { rules: [{ host: "shop.example.com" }] },
    status: { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } },
  });
}

describe("the names of a cluster", () => {
  test("are those of a read-only controller, each with the Service that serves it; nothing is written", async () => {
    addShop();
    const found = await gather();
    assert.ok(found.known);
    assert.deepEqual(found.value, {
      names: [{ name: "shop.example.com", service: "edge/ingress-nginx-controller" }],
      unread: [],
    });
    assert.deepEqual(server.writes, []);
    assert.ok(!server.calls.some(({ query }) => query.has("watch")), "a list is enough");
  });

  test("are incomplete if a kind may not be listed, and that is said", async () => {
    addShop();
    server.onCall = ({ path }) =>
      path === "/apis/networking.k8s.io/v1/ingresses" ? refusal(403, "Forbidden") : undefined;
    const found = await gather();
    assert.ok(found.known);
    assert.deepEqual(found.value.names, []);
    assert.deepEqual(
      found.value.unread.map(({ kind, code }) => [kind, code]),
      [["ingresses", "forbidden"]],
    );
  });

  test("are those of the default configuration if the installed one cannot be read", async () => {
    addShop();
    const found = await gather({ config: notKnown("right-missing", "t") });
    assert.deepEqual(found.known && found.value.names.map(({ name }) => name), ["shop.example.com"]);
  });
});
