import assert from "node:assert/strict";
import { test } from "node:test";
import { endpointSlicesOf, readyAddresses } from "./endpoints.ts";

test("a Service's EndpointSlices are selected by the Service's name, in its namespace", () => {
  assert.deepEqual(endpointSlicesOf("shop", "web"), {
    path: "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices",
    labelSelector: "kubernetes.io/service-name=web",
  });
});

test("the first address of each endpoint counts if the endpoint is ready or has no such condition", () => {
  const endpoints = [
    { addresses: ["10.0.0.1", "10.0.0.2"], conditions: { ready: true } },
    { addresses: ["10.0.0.3"], conditions: { ready: false } },
    { addresses: ["10.0.0.4"], conditions: {} },
    { addresses: ["10.0.0.5"] },
    { addresses: [], conditions: { ready: true } },
    {},
  ];
  assert.deepEqual(readyAddresses({ endpoints }), ["10.0.0.1", "10.0.0.4", "10.0.0.5"]);
  assert.deepEqual([readyAddresses({}), readyAddresses({ endpoints: null })], [[], []]);
});
