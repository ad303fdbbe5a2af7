import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ApiObject } from "#lib/kube/types.ts";
import { pluralOf } from "./object-paths.ts";
import { type StoredAnswer, StoredCluster } from "./stored-cluster.ts";

const PODS = "/api/v1/pods";

function stored(answers: Record<string, StoredAnswer> = {}): StoredCluster {
  const cluster = new StoredCluster();
  for (const [namespace, name, labels, phase] of [
    ["a", "x", { app: "web" }, "Running"],
    ["a", "y", {}, "Failed"],
    ["b", "x", { app: "db" }, "Running"],
  ] as const) {
    const metadata = { namespace, name, labels };
    cluster.put(PODS, {
      apiVersion: "v1",
      kind: "Pod",
      metadata,
      status: { phase },
    } as ApiObject);
  }
  cluster.put("/apis/example.com/v1/oxen", { apiVersion: "example.com/v1", kind: "Ox", metadata: { name: "a" } });
  cluster.add({ apiVersion: "example.com/v1", kind: "Cart", metadata: { name: "a" } });
  for (const [key, answer] of Object.entries(answers)) cluster.answers.set(key, answer);
  return cluster;
}

describe("a list", () => {
  for (const [what, path, query, expected] of [
    ["has every namespace", PODS, {}, ["a/x", "a/y", "b/x"]],
    ["has one namespace", "/api/v1/namespaces/a/pods", {}, ["a/x", "a/y"]],
    ["selects labels", PODS, { labelSelector: "app=web" }, ["a/x"]],
    ["selects labels that are there", PODS, { labelSelector: "app" }, ["a/x", "b/x"]],
    ["selects labels that are not there", PODS, { labelSelector: "!app" }, ["a/y"]],
    ["selects labels with one of some values", PODS, { labelSelector: "app in (db,web),app!=web" }, ["b/x"]],
    ["selects fields", PODS, { fieldSelector: "status.phase!=Failed,metadata.name=x" }, ["a/x", "b/x"]],
  ] as const) {
    test(what, async () => {
      const { items } = await stored().client().list<ApiObject>(path, query);
      const names = items.map(({ metadata }) => `${metadata?.namespace}/${metadata?.name}`);
      assert.deepEqual(names, expected);
    });
  }

  test("of a kind without objects is not known, unless it was listed, or none is assumed", async () => {
    const path = "/apis/apps/v1/deployments";
    const cluster = stored();
    await assert.rejects(cluster.client().list(path), { message: /it is not in the file$/ });
    assert.deepEqual((await cluster.client(true).list(path)).items, []);
    await assert.rejects(cluster.client(true).get(`/apis/apps/v1/namespaces/a/deployments/x`), { status: 404 });
    assert.deepEqual([...cluster.lacking], [path, "/apis/apps/v1/namespaces/a/deployments/x"]);
    assert.deepEqual(
      (
        await stored({ [`GET ${path}`]: { status: 200 } })
          .client()
          .list(path)
      ).items,
      [],
    );
  });
});

test("discovery lists the versions and kinds of the objects", async () => {
  const client = stored().client();
  const resources = [
    { name: "oxen", kind: "Ox" },
    { name: "carts", kind: "Cart" },
  ];
  for (const path of ["/apis/example.com", "/apis/example.com/v1"]) {
    const found = await client.get<{ versions: readonly { version: string }[] }>(path);
    assert.deepEqual(found, { versions: [{ version: "v1" }, { version: "v1" }], resources });
  }
  await assert.rejects(client.get("/apis/example.com/v2"), { status: 404 });
  await assert.rejects(client.get("/apis/other.example.com"), { status: 404 });
});

test("a failed call fails again, with the same message and status, and writes are refused", async () => {
  const failed = stored({ [`GET ${PODS}`]: { status: 403, message: "M" }, "GET /x": { status: 0, message: "N" } });
  await assert.rejects(failed.client().list(PODS), { code: "kube-status", status: 403, message: "M" });
  await assert.rejects(failed.client().get("/x"), { code: "kube-unreachable", message: "N" });
  await assert.rejects(failed.client().replace(PODS, {}), { status: 405 });
});

test("a watch stays open until it is stopped", async () => {
  const stop = new AbortController();
  const opened = Promise.withResolvers<void>();
  const options = { signal: stop.signal, idleMs: 1, onOpen: opened.resolve, onLine: () => assert.fail() };
  const watch = stored().client().stream(PODS, {}, options);
  await opened.promise;
  stop.abort(new Error("stopped"));
  await assert.rejects(watch, { message: "stopped" });
});

test("plurals", () => {
  const kinds = "Ingress Gateway HTTPProxy IngressClass NetworkPolicy EndpointSlice Lease".split(" ");
  const plurals = "ingresses gateways httpproxies ingressclasses networkpolicies endpointslices leases";
  assert.deepEqual(kinds.map(pluralOf).join(" "), plurals);
});
