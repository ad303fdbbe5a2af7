import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { MemoryServer, refusal } from "../test/fakes/memory-server.ts";
import { skipWaits } from "../test/fakes/skipped-waits.ts";
import { leaderStatus } from "./leader-status.ts";

const PATH = "/api/v1/namespaces/ours/services/switchback-controller:http/proxy/status";

/** Replicas answer in turn, the last one from then on. */
function asked(t: TestContext, ...replicas: readonly object[]) {
  const server = new MemoryServer();
  server.onCall = () => ({ status: 200, body: replicas[Math.min(server.calls.length, replicas.length) - 1] ?? {} });
  return { server, time: skipWaits(t) };
}

const leader = { leader: true, identity: "controller-1" };
const follower = { leader: false, identity: "controller-0" };

test("reads the leader's status with one call to its Service", async (t) => {
  const { server, time } = asked(t, leader);
  assert.deepEqual(await leaderStatus(server.client, "ours"), leader);
  assert.deepEqual([server.calls.map(({ method, path }) => `${method} ${path}`), time.waits], [[`GET ${PATH}`], []]);
});

test("retries after a delay until the leader answers", async (t) => {
  const { server, time } = asked(t, follower, follower, leader);
  assert.deepEqual(await leaderStatus(server.client, "ours"), leader);
  assert.deepEqual(time.waits, [100, 100]);
});

test("without a leader, returns the status of the last follower that answered", async (t) => {
  const { server, time } = asked(t, follower, { ...follower, identity: "controller-2" });
  assert.deepEqual(await leaderStatus(server.client, "ours"), { ...follower, identity: "controller-2" });
  assert.deepEqual([server.calls.length, time.waits], [20, Array(19).fill(100)]);
});

test("reports a missing Service with its namespace", async (t) => {
  const { server } = asked(t);
  server.onCall = () => undefined;
  await assert.rejects(leaderStatus(server.client, "ours"), {
    code: "input-invalid",
    message: "Service switchback-controller not found in namespace ours; is Switchback installed there? (--namespace)",
  });
});

for (const status of [403, 500, 503]) {
  test(`does not retry a ${status}`, async (t) => {
    const { server } = asked(t);
    server.onCall = () => refusal(status, "Refused");
    await assert.rejects(leaderStatus(server.client, "ours"), { code: "kube-status", status });
    assert.equal(server.calls.length, 1);
  });
}

test("rejects a response that is not JSON", async () => {
  const client = new MemoryServer().client;
  const raw = async () => ({ status: 200, contentType: "text/html", text: "<html>" });
  await assert.rejects(leaderStatus({ ...client, raw }, "ours"), {
    code: "data-corrupt",
    message: `GET ${PATH}: the response is not JSON`,
  });
});

test("sends no request once aborted", async (t) => {
  const { server } = asked(t, follower);
  const abort = new AbortController();
  abort.abort(new Error("interrupted"));
  await assert.rejects(leaderStatus(server.client, "ours", abort.signal), /interrupted/);
  assert.equal(server.calls.length, 0);
});
