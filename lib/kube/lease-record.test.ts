import assert from "node:assert/strict";
import { test } from "node:test";
import type { KubeClient } from "./client.ts";
import { createLeaseStore, type Lease, microTime } from "./lease-record.ts";
import { KubeStatusError } from "./status.ts";

const PATH = "/apis/coordination.k8s.io/v1/namespaces/own/leases/leader";
const HEAD = { apiVersion: "coordination.k8s.io/v1", kind: "Lease" };
const METADATA = { name: "leader", namespace: "own", uid: "u", resourceVersion: "7", annotations: { note: "x" } };
const OPTIONS = { timeoutMs: 5 };

/** A store that records its calls and answers each with `answer`. */
function start(answer: (method: string) => Lease) {
  const calls: unknown[][] = [];
  const call =
    (method: string) =>
    async (...of: unknown[]) => {
      calls.push([method, ...of]);
      return answer(method);
    };
  const client = { get: call("get"), apply: call("apply"), replace: call("replace") } as unknown as KubeClient;
  return { calls, store: createLeaseStore(client, "own", "leader") };
}

const refused = (status: number) => (): never => {
  throw new KubeStatusError("PUT", status, { message: "" });
};
const LEASE: Lease = { ...HEAD, metadata: METADATA, spec: { holderIdentity: "a" } };

test("a Lease is read", async () => {
  const { calls, store } = start(() => LEASE);
  assert.equal(await store.read(OPTIONS), LEASE);
  assert.deepEqual(calls, [["get", PATH, {}, OPTIONS]]);
});

test("a missing Lease is created without a holder; other errors are thrown", async () => {
  const { calls, store } = start((method) => (method === "get" ? refused(404)() : LEASE));
  assert.equal(await store.read(OPTIONS), LEASE);
  const empty = { ...HEAD, metadata: { name: "leader", namespace: "own" }, spec: {} };
  assert.deepEqual(calls[1], ["apply", PATH, empty, { ...OPTIONS, fieldManager: "switchback-election" }]);
  await assert.rejects(start(refused(500)).store.read(OPTIONS), { status: 500 });
});

test("a swap replaces exactly the object that was read, with all of its metadata", async () => {
  const { calls, store } = start(() => LEASE);
  const spec = { holderIdentity: "b" };
  assert.equal(await store.swap({ metadata: METADATA, spec: { holderIdentity: "a" } }, spec, OPTIONS), LEASE);
  assert.deepEqual(calls, [["replace", PATH, { ...HEAD, metadata: METADATA, spec }, OPTIONS]]);
});

test("a swap of a Lease that has changed or was deleted returns undefined; other errors are thrown", async () => {
  const swap = (answer: () => Lease) => start(answer).store.swap(LEASE, {}, OPTIONS);
  for (const status of [409, 404]) assert.equal(await swap(refused(status)), undefined);
  await assert.rejects(swap(refused(403)), { status: 403 });
  await assert.rejects(swap(refused(410)), { code: "kube-expired" });
});

test("a Lease without a version is never written", async () => {
  const { calls, store } = start(() => LEASE);
  await assert.rejects(store.swap({ metadata: { name: "leader" } }, {}, OPTIONS), { code: "data-corrupt" });
  assert.deepEqual(calls, []);
});

test("a MicroTime has six digits", () => {
  assert.equal(microTime(1_700_000_000_123), "2023-11-14T22:13:20.123000Z");
});
