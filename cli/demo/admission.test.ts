import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { after, before, beforeEach, describe, test } from "node:test";
import { createTestCa } from "#test/cluster/pki.ts";
import { admit, type DemoPod, podsOf } from "./admission.ts";
import type { KubeObject } from "./yaml-files.ts";

const INJECT = "switchback.dev/inject";
const SPEC = { hostAliases: [{ ip: "192.0.2.1", hostnames: ["a"] }] };
const objects = (...all: object[]) => all as KubeObject[];
const pod = (labels: object = {}, namespace?: string) => ({
  kind: "Pod",
  metadata: { name: "web", labels, ...(namespace !== undefined && { namespace }) },
  spec: SPEC,
});

describe("the pods of a directory", () => {
  test("are its pods and one pod per workload template, named after the workload", () => {
    const template = { metadata: { labels: { app: "x" }, name: "other" }, spec: SPEC };
    const found = podsOf(
      objects(
        pod({}, "shop"),
        { kind: "Deployment", metadata: { name: "d", namespace: "shop" }, spec: { template } },
        { kind: "Deployment", metadata: { name: "bare" }, spec: { template: {} } },
        { kind: "Service", metadata: { name: "s" }, spec: {} },
        { kind: "ConfigMap", metadata: { name: "c" } },
      ),
    );
    const object = (metadata: object, spec: object) => ({ apiVersion: "v1", kind: "Pod", metadata, spec });
    assert.deepEqual(found, [
      {
        name: "web",
        namespace: "shop",
        object: object({ name: "web", labels: {}, namespace: "shop" }, SPEC),
        optIn: undefined,
      },
      {
        name: "d",
        namespace: "shop",
        object: object({ name: "d", labels: { app: "x" }, namespace: "shop" }, SPEC),
        optIn: undefined,
      },
      {
        name: "bare",
        namespace: "default",
        object: object({ name: "bare", namespace: "default" }, {}),
        optIn: undefined,
      },
    ]);
    assert.notEqual(found[0]?.object.spec, SPEC, "the file's own object stays as it is");
  });

  for (const [what, namespaceLabel, podLabel, optIn] of [
    ["neither label", undefined, undefined, undefined],
    ["the namespace's", "enabled", undefined, "namespace"],
    ["the namespace's with another value", "true", undefined, undefined],
    ["the pod's", undefined, "enabled", "pod"],
    ["both", "enabled", "enabled", "pod"],
    ["a pod that opts out", "enabled", "disabled", undefined],
    ["a pod's other value", "enabled", "x", "namespace"],
  ] as const) {
    test(`opt in by ${what}: ${optIn ?? "no"}`, () => {
      const labels = namespaceLabel && { [INJECT]: namespaceLabel };
      const namespaces = [
        { kind: "Namespace", metadata: { name: "shop", ...(labels && { labels }) } },
        { kind: "Service", metadata: { name: "shop", labels: { [INJECT]: "enabled" } } },
      ];
      const [found] = podsOf(objects(...namespaces, pod(podLabel && { [INJECT]: podLabel }, "shop")));
      assert.equal(found?.optIn, optIn);
    });
  }
});

describe("a pod at the webhook", () => {
  const ca = createTestCa("demo");
  const seen: unknown[] = [];
  let answer: { status?: number; response: object };
  const server = createServer(ca.serving(["switchback-webhook.switchback-system.svc"]), async (request, response) => {
    const { method, url, headers } = request;
    const body = await text(request);
    seen.push([method, url, headers["content-type"], Number(headers["content-length"]) === Buffer.byteLength(body)]);
    seen.push(JSON.parse(body));
    response.statusCode = answer.status ?? 200;
    response.end(JSON.stringify({ response: answer.response }));
  });
  let endpoint: { port: number; ca: string };
  before(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    endpoint = { port: (server.address() as AddressInfo).port, ca: ca.cert };
  });
  after(() => server.close());
  beforeEach(() => {
    seen.length = 0;
  });

  const [POD] = podsOf(objects(pod({ [INJECT]: "enabled" }, "shop")));
  assert.ok(POD);
  const patch = (...operations: object[]) => Buffer.from(JSON.stringify(operations)).toString("base64");

  test("is sent as by the API server, and gets what the patch adds", async () => {
    const operations = [
      { op: "add", path: "/metadata/annotations", value: { k: "v" } },
      { op: "add", path: "/spec/hostAliases/-", value: { ip: "192.0.2.2", hostnames: ["é"] } },
    ];
    answer = { response: { allowed: true, warnings: ["w"], patch: patch(...operations) } };
    assert.deepEqual(await admit(POD, endpoint), {
      allowed: true,
      warnings: ["w"],
      hostAliases: [...SPEC.hostAliases, { ip: "192.0.2.2", hostnames: ["é"] }],
      annotations: { k: "v" },
    });
    const [call, review] = seen as [unknown, { request: { uid: string } }];
    assert.deepEqual(call, ["POST", "/mutate/pod", "application/json", true]);
    const { uid } = review.request;
    assert.match(uid, /^[0-9a-f-]{36}$/);
    assert.deepEqual(review, {
      apiVersion: "admission.k8s.io/v1",
      kind: "AdmissionReview",
      request: {
        uid,
        kind: { group: "", version: "v1", kind: "Pod" },
        resource: { group: "", version: "v1", resource: "pods" },
        operation: "CREATE",
        namespace: "shop",
        name: "web",
        object: POD.object,
        dryRun: false,
      },
    });
    assert.deepEqual(POD.object.spec, SPEC, "the pod itself stays as it is");
  });

  test("stays unchanged without a patch", async () => {
    answer = { response: { allowed: false } };
    const nothing = { allowed: false, warnings: [], hostAliases: SPEC.hostAliases, annotations: {} };
    assert.deepEqual(await admit({ ...POD, optIn: "namespace" }, endpoint), nothing);
    assert.deepEqual((seen[0] as unknown[])[1], "/mutate/namespace");
    const empty: DemoPod = { ...POD, object: { ...POD.object, spec: {} } };
    assert.deepEqual(await admit(empty, endpoint), { ...nothing, hostAliases: [] });
  });

  test("is sent only if it opted in", async () => {
    const found = await admit({ ...POD, optIn: undefined }, endpoint);
    assert.deepEqual(found, { allowed: true, warnings: [], hostAliases: [], annotations: {} });
    assert.deepEqual(seen, []);
  });

  test("a patch that does not apply, another status and a certificate from another CA are failures", async () => {
    answer = { response: { allowed: true, patch: patch({ op: "remove", path: "/nowhere/at/all" }) } };
    await assert.rejects(admit(POD, endpoint), { name: "MissingError" });
    answer = { status: 500, response: {} };
    await assert.rejects(admit(POD, endpoint), { message: 'the webhook responded with 500: {"response":{}}' });
    await assert.rejects(admit(POD, { ...endpoint, ca: createTestCa("other").cert }), { code: /CERT|SIGNATURE/ });
  });
});
