import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { KubeStatusError } from "#lib/kube/status.ts";
import { describePermission, known, mapFact, notKnown, readFact } from "./fact.ts";

test("a permission is described in RBAC's terms", () => {
  assert.equal(describePermission({ verb: "list", resource: "pods" }), "list pods in all namespaces");
  const one = { verb: "get", resource: "secrets", namespace: "ours", name: "tls" };
  assert.equal(describePermission(one), "get secrets tls in the namespace ours");
});

describe("a failed call yields an unknown fact:", () => {
  const read = (status: number, absent?: { readonly value: string }) =>
    readFact(
      { verb: "list", resource: "pods" },
      async (): Promise<string> => {
        throw new KubeStatusError("GET /x", status, { message: "no" });
      },
      absent,
    );
  for (const [status, code, text] of [
    [401, "right-missing", "missing permission: list pods in all namespaces"],
    [403, "right-missing", "missing permission: list pods in all namespaces"],
    [402, "not-read", "GET /x: 402: no"],
    [404, "not-read", "GET /x: 404: no"],
    [500, "not-read", "GET /x: 500: no"],
  ] as const) {
    test(`${status}`, async () => assert.deepEqual(await read(status), notKnown(code, text)));
  }

  test("only a 404 yields the given value", async () => {
    assert.deepEqual(await read(404, { value: "none" }), known("none"));
    assert.deepEqual(await read(500, { value: "none" }), notKnown("not-read", "GET /x: 500: no"));
  });
});

test("only a known fact is mapped", () => {
  assert.deepEqual(
    mapFact(known(1), (value) => value + 1),
    known(2),
  );
  const unknown = notKnown("not-read", "t");
  assert.equal(
    mapFact(unknown, () => 1),
    unknown,
  );
});
