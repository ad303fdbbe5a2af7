import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { known, notKnown } from "./fact.ts";
import { gatherEndpoints } from "./gather-cluster.ts";
import { gatherPods } from "./gather-pods.ts";

const SHOP = "/api/v1/namespaces/shop/pods";
const OTHER = "/api/v1/namespaces/other/pods";
const missing = (text: string) => notKnown("right-missing", `missing permission: ${text}`);

let server: MemoryServer;
beforeEach(() => {
  server = new MemoryServer();
});

describe("opted-in pods", () => {
  const NAMESPACES = known(
    new Map([
      ["shop", { inject: "enabled", onChange: undefined }],
      ["other", { inject: "disabled", onChange: undefined }],
      ["third", { inject: undefined, onChange: undefined }],
    ]),
  );
  const rules = { excluded: new Set<string>(), listed: new Set<string>() };
  const gather = () => gatherPods(server.client, NAMESPACES, rules);
  const optedIn = { labels: { "switchback.dev/inject": "enabled" } };

  test(
    "are those of opted-in namespaces and those that opted in themselves, " + "each once, without ended ones",
    async () => {
      server.add(SHOP, "web", { metadata: optedIn });
      server.add(SHOP, "db");
      server.add(OTHER, "one", { metadata: optedIn });
      server.add(OTHER, "two");
      const pods = await gather();
      assert.ok(pods.known);
      assert.deepEqual(
        pods.value.map(({ namespace, name }) => `${namespace}/${name}`),
        ["shop/web", "other/one", "shop/db"],
      );
      const selectors = server.calls.map(({ path, query }) => [
        path,
        query.get("labelSelector"),
        query.get("fieldSelector"),
      ]);
      const notEnded = "status.phase!=Succeeded,status.phase!=Failed";
      assert.deepEqual(selectors, [
        ["/api/v1/pods", "switchback.dev/inject=enabled", notEnded],
        [SHOP, null, notEnded],
      ]);
    },
  );

  test("include the pods of listed namespaces, unless their label is `disabled`", async () => {
    for (const path of [OTHER, "/api/v1/namespaces/third/pods"]) server.add(path, "web");
    const pods = await gatherPods(server.client, NAMESPACES, { ...rules, listed: new Set(["other", "third"]) });
    assert.deepEqual(pods.known && pods.value.map(({ namespace }) => namespace), ["third"]);
  });

  test("keep their labels and annotations; a pod that is being deleted does not count", async () => {
    const [labels, annotations] = [{ "pod-template-hash": "5d9c" }, { a: "b" }];
    server.add(SHOP, "web", { metadata: { labels, annotations }, spec: { nodeName: "node-1" } });
    server.add(SHOP, "bare");
    server.add(SHOP, "leaving", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } });
    assert.deepEqual(
      await gather(),
      known([
        { namespace: "shop", name: "web", labels, annotations },
        { namespace: "shop", name: "bare", labels: {}, annotations: {} },
      ]),
    );
  });

  test("are unknown if pods or namespaces cannot be read", async () => {
    server.onCall = () => refusal(403, "Forbidden");
    assert.deepEqual(await gather(), missing("list pods in all namespaces"));
    const namespaces = missing("list namespaces");
    server.calls.length = 0;
    assert.deepEqual(await gatherPods(server.client, namespaces, rules), namespaces);
    assert.deepEqual(server.calls, []);
  });
});

describe("endpoints", () => {
  const slices = (namespace: string) => `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
  const of = (service: string) => ({ metadata: { labels: { "kubernetes.io/service-name": service } } });
  const SERVICES = [
    { namespace: "edge", name: "web" },
    { namespace: "edge", name: "none" },
  ];

  test("are counted per Service if they are ready", async () => {
    const endpoint = (ready?: boolean) => ({ addresses: ["192.0.2.1", "192.0.2.2"], conditions: { ready } });
    server.add(slices("edge"), "a", { ...of("web"), endpoints: [endpoint(true), endpoint(false), endpoint()] });
    server.add(slices("edge"), "b", { ...of("web"), endpoints: [endpoint(true)] });
    server.add(slices("edge"), "c", { ...of("other"), endpoints: [endpoint(true)] });
    assert.deepEqual(await gatherEndpoints(server.client, SERVICES), {
      known: true,
      value: [
        { namespace: "edge", name: "web", ready: 3 },
        { namespace: "edge", name: "none", ready: 0 },
      ],
    });
  });

  test("are unknown if those of one Service cannot be read", async () => {
    server.onCall = ({ path }) => (path === slices("closed") ? refusal(403, "Forbidden") : undefined);
    assert.deepEqual(
      await gatherEndpoints(server.client, [...SERVICES, { namespace: "closed", name: "x" }]),
      missing("list endpointslices.discovery.k8s.io in the namespace closed"),
    );
  });

  test("are an empty list without Services", async () => {
    assert.deepEqual(await gatherEndpoints(server.client, []), { known: true, value: [] });
  });
});
