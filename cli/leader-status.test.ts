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

test("the one that leads is asked once, through its Service", async (t) => {
  const { server, time } = asked(t, leader);
  assert.deepEqual(await leaderStatus(server.client, "ours"), leader);
  assert.deepEqual([server.calls.map(({ method, path }) => `${method} ${path}`), time.waits], [[`GET ${PATH}`], []]);
});

test("a replica that does not lead is asked past, with a wait between", async (t) => {
  const { server, time } = asked(t, follower, follower, leader);
  assert.deepEqual(await leaderStatus(server.client, "ours"), leader);
  assert.deepEqual(time.waits, [100, 100]);
});

test("where none leads, the view of the follower that answered last", async (t) => {
  const { server, time } = asked(t, follower, { ...follower, identity: "controller-2" });
  assert.deepEqual(await leaderStatus(server.client, "ours"), { ...follower, identity: "controller-2" });
  assert.deepEqual([server.calls.length, time.waits], [20, Array(19).fill(100)]);
});

test("a Service that is not there is said, with the namespace", async (t) => {
  const { server } = asked(t);
  server.onCall = () => undefined;
  await assert.rejects(leaderStatus(server.client, "ours"), {
    code: "input-invalid",
    message:
      "there is no Service switchback-controller in the namespace ours; is Switchback installed there? (--namespace)",
  });
});

for (const status of [403, 500, 503]) {
  test(`a ${status} is passed on at once`, async (t) => {
    const { server } = asked(t);
    server.onCall = () => refusal(status, "Refused");
    await assert.rejects(leaderStatus(server.client, "ours"), { code: "kube-status", status });
    assert.equal(server.calls.length, 1);
  });
}

test("an answer that is no JSON is another server's", async () => {
  const client = new MemoryServer().client;
  const raw = async () => ({ status: 200, contentType: "text/html", text: "<html>" });
  await assert.rejects(leaderStatus({ ...client, raw }, "ours"), {
    code: "data-corrupt",
    message: `GET ${PATH}: the answer is not JSON`,
  });
});

test("after a signal nothing is asked", async (t) => {
  const { server } = asked(t, follower);
  const abort = new AbortController();
  abort.abort(new Error("interrupted"));
  await assert.rejects(leaderStatus(server.client, "ours", abort.signal), /interrupted/);
  assert.equal(server.calls.length, 0);
});
