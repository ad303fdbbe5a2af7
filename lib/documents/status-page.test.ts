import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { KubeClient } from "#lib/kube/client.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { readLeaderStatus, statusKeyIn, statusSecretData } from "./status-page.ts";

const KEY = "k".repeat(43);
const REFUSED = { status: 403, contentType: "text/plain; charset=utf-8", text: "send the key\n" };
const page = (leader: boolean) => ({ leader, synced: true, sources: [], warnings: [], names: [] });
const LEADER = { status: 200, contentType: "application/json", text: JSON.stringify(page(true)) };
const FOLLOWER = { ...LEADER, text: JSON.stringify(page(false)) };

/** Replicas that give these answers in turn. The last answer repeats. */
function asked(t: TestContext, ...answers: readonly (typeof LEADER)[]) {
  const { waits } = skipWaits(t);
  const sent: unknown[] = [];
  const raw: KubeClient["raw"] = async (_path, options) => {
    sent.push(options?.headers);
    return answers[Math.min(sent.length, answers.length) - 1] ?? LEADER;
  };
  const read = (key: string | undefined) => readLeaderStatus({ raw }, "ours", { key });
  return { read, sent, waits };
}

test("a replica that does not know the key yet is asked again", async (t) => {
  const { read, sent, waits } = asked(t, REFUSED, FOLLOWER, LEADER);
  assert.deepEqual(await read(KEY), page(true));
  assert.deepEqual(sent, Array(3).fill({ "switchback-status-key": KEY }));
  assert.deepEqual(waits, [100, 100]);
});

test("replicas that never know the key make the request fail", async (t) => {
  const { read, sent } = asked(t, REFUSED);
  await assert.rejects(read(KEY), { code: "status-refused", message: /\/proxy\/status: send the key$/ });
  assert.equal(sent.length, 20);
});

// A test may stop the clock only once. If it is stopped twice, it does not continue for later tests of the process.
test("a replica that never knows the key does not matter if a follower has answered", async (t) => {
  assert.deepEqual(await asked(t, FOLLOWER, REFUSED).read(KEY), page(false));
});

test("without a key a refusal is final", async (t) => {
  const { read, sent } = asked(t, REFUSED, LEADER);
  await assert.rejects(read(undefined), { code: "status-refused" });
  assert.deepEqual(sent, [undefined]);
});

test("a refusal by the API server is not reported as the controller's", async (t) => {
  const text = JSON.stringify({ kind: "Status", code: 403, reason: "Forbidden", message: "no" });
  const { read, sent } = asked(t, { ...REFUSED, contentType: "application/json", text });
  await assert.rejects(read(KEY), { code: "kube-status", status: 403, message: /403 Forbidden: no$/ });
  assert.equal(sent.length, 1);
});

test("a key is read back from a Secret if it fits into a header and is hard to guess", () => {
  for (const key of [KEY, "!~".repeat(16), "x".repeat(256)])
    assert.equal(statusKeyIn({ data: statusSecretData(key) }), key);
  for (const key of ["", "x".repeat(31), "x".repeat(257), `${KEY}\r\n`, `${KEY} ${KEY}`, `${KEY}é`]) {
    assert.equal(statusKeyIn({ data: statusSecretData(key) }), undefined, JSON.stringify(key));
  }
  assert.equal(statusKeyIn({}), undefined);
  assert.equal(statusKeyIn({ data: { other: "a" } }), undefined);
});
