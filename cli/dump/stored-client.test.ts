import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { KubeClient } from "#lib/kube/client.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { type StoredAnswer, storedClient } from "./stored-client.ts";
import { pluralOf, StoredObjects } from "./stored-objects.ts";

const PODS = "/api/v1/pods";

function stored(answers: Record<string, StoredAnswer> = {}): KubeClient {
  const objects = new StoredObjects();
  for (const [namespace, name, labels, phase] of [
    ["a", "x", { app: "web" }, "Running"],
    ["a", "y", {}, "Failed"],
    ["b", "x", { app: "db" }, "Running"],
  ] as const) {
    const metadata = { namespace, name, labels };
    objects.put("/api/v1", "pods", { apiVersion: "v1", kind: "Pod", metadata, status: { phase } } as ApiObject);
  }
  objects.put("/apis/example.com/v1", "oxen", { apiVersion: "example.com/v1", kind: "Ox", metadata: { name: "a" } });
  objects.put("/apis/example.com/v1", "carts", { apiVersion: "example.com/v1", kind: "Cart", metadata: { name: "a" } });
  return storedClient({ objects, answers: new Map(Object.entries(answers)) });
}

async function listed(path: string, query = {}): Promise<string[]> {
  const { items } = await stored().list<ApiObject>(path, query);
  return items.map(({ metadata }) => `${metadata?.namespace}/${metadata?.name}`);
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
    test(what, async () => assert.deepEqual(await listed(path, query), expected));
  }

  test("of a kind without objects is not known, unless it was listed", async () => {
    const path = "/apis/apps/v1/deployments";
    await assert.rejects(stored().list(path), { message: /it is not in the file$/ });
    assert.deepEqual((await stored({ [`GET ${path}`]: { status: 200 } }).list(path)).items, []);
  });
});

test("an object is found by its path", async () => {
  assert.equal((await stored().get<ApiObject>("/api/v1/namespaces/b/pods/x")).metadata?.labels?.app, "db");
  await assert.rejects(stored().get("/api/v1/namespaces/b/pods/y"), { status: 404 });
});

test("discovery lists the kinds of the objects", async () => {
  const client = stored();
  assert.deepEqual(await client.get("/apis/example.com"), { versions: [{ version: "v1" }] });
  const verbs = ["list", "watch", "create"];
  const [oxen, carts] = [
    { name: "oxen", kind: "Ox", verbs },
    { name: "carts", kind: "Cart", verbs },
  ];
  assert.deepEqual(await client.get("/apis/example.com/v1"), { resources: [oxen, carts] });
  await assert.rejects(client.get("/apis/other.example.com"), { status: 404 });
});

test("a failed call fails again, with the same message and status", async () => {
  const client = stored({ [`GET ${PODS}`]: { status: 403, message: "M" }, "GET /x": { status: 0, message: "N" } });
  await assert.rejects(client.list(PODS), { code: "kube-status", status: 403, message: "M" });
  await assert.rejects(client.get("/x"), { code: "kube-unreachable", message: "N" });
});

test("pages and dry runs return their stored answers, and writes are refused", async () => {
  const page = { status: 503, text: "[]", contentType: "text/plain" };
  const client = stored({ "GET /page": page, [`POST ${PODS}`]: { status: 201, body: { kind: "Pod" } } });
  assert.deepEqual(await client.raw("/page"), page);
  assert.deepEqual(await client.create(PODS, {}), { kind: "Pod" });
  await assert.rejects(client.raw("/other"), { message: /it is not in the file$/ });
  await assert.rejects(client.replace(PODS, {}), { status: 405 });
});

test("a watch stays open until it is stopped", async () => {
  const stop = new AbortController();
  let opened = 0;
  const options = { signal: stop.signal, idleMs: 1, onOpen: () => opened++, onLine: () => assert.fail() };
  const watch = stored().stream(PODS, {}, options);
  await new Promise((resolve) => setTimeout(resolve, 20));
  stop.abort(new Error("stopped"));
  await assert.rejects(watch, { message: "stopped" });
  assert.equal(opened, 1);
});

test("plurals", () => {
  const kinds = "Ingress Gateway HTTPProxy IngressClass NetworkPolicy EndpointSlice Lease".split(" ");
  const plurals = "ingresses gateways httpproxies ingressclasses networkpolicies endpointslices leases";
  assert.deepEqual(kinds.map(pluralOf).join(" "), plurals);
});
