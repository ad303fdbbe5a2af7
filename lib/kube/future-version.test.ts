import assert from "node:assert/strict";
import { test } from "node:test";
import type { KubeClient } from "./client.ts";
import { isFutureVersion } from "./future-version.ts";

/** Returns the result for `version` when a list has the version `current`, and the calls that were made. */
async function ask(version: string, current: string | undefined) {
  const calls: unknown[] = [];
  const get = async (...call: unknown[]) => {
    calls.push(call);
    return current === undefined ? {} : { metadata: { resourceVersion: current } };
  };
  const client = { get } as unknown as Pick<KubeClient, "get">;
  const request = { path: "/pods", query: { labelSelector: "a=b" }, options: { timeoutMs: 7 } };
  return { isFuture: await isFutureVersion(client, version, request), calls };
}

for (const [version, current, isFuture] of [
  ["10", "9", true],
  ["9", "10", false],
  ["10", "10", false],
  ["18446744073709551617", "18446744073709551616", true],
  ["10", undefined, false],
  ["v10", "9", false],
  ["10", "v9", false],
  ["10x", "9", false],
  ["10", "9x", false],
  ["", "9", false],
] as const) {
  test(`the version ${version} is ${isFuture ? "" : "not "}newer than ${current}`, async () => {
    assert.equal((await ask(version, current)).isFuture, isFuture);
  });
}

test("it lists one item without a version, which gives the server's newest version", async () => {
  const { calls } = await ask("10", "9");
  assert.deepEqual(calls, [["/pods", { labelSelector: "a=b", limit: 1 }, { timeoutMs: 7 }]]);
});
