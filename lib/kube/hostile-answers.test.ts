import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { describeError, hasCode } from "#lib/errors/errors.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { type FakeApi, fakeApi, hang, json, type Responder, until } from "#test/fakes/kube-api.ts";
import { tryRandomAnswers } from "#test/fakes/random-answers.ts";
import { runElection } from "./lease.ts";

/** `npm run attack -- --minutes 30` tries more requests. */
const REQUESTS = 600;
const SEED = 1;
const PATH = "/api/v1/namespaces/shop/configmaps/web";
/** Timeout for tests that would otherwise hang. */
const LIMITED = { timeout: 20_000 };

let api: FakeApi | undefined;
afterEach(() => api?.close());

const switchProtocols: Responder = ({ socket }) =>
  void socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");

test("whatever a peer answers, each request ends at its deadline, and no connection remains", async () => {
  const { late, left } = await tryRandomAnswers(SEED, (requests) => requests >= REQUESTS);
  assert.deepEqual([late, left], [[], 0]);
});

test("status 101 ends a call and a watch at once, with an error that names it", LIMITED, async () => {
  api = await fakeApi(switchProtocols);
  const { client } = api;
  const watching = { signal: new AbortController().signal, idleMs: 60_000, onLine: () => {} };
  for (const call of [client.get(PATH, {}, { timeoutMs: 60_000 }), client.stream(PATH, {}, watching)]) {
    const error = await call.catch((reason: unknown) => reason);
    assert.ok(hasCode(error, "kube-unreachable"));
    assert.match(describeError(error), /switched protocols/);
  }
});

test("half a body ends a call at once, and the next call has a new connection", LIMITED, async () => {
  let isFirst = true;
  api = await fakeApi((call) => {
    if (!isFirst) return json({ kind: "List" })(call);
    isFirst = false;
    call.socket.end('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"kind":');
  });
  const { client } = api;
  await assert.rejects(client.get(PATH, {}, { timeoutMs: 60_000 }), { code: "kube-unreachable" });
  assert.deepEqual(await client.get(PATH), { kind: "List" });
});

test(
  "a call that waits for a connection ends at its own deadline, not at those of earlier calls",
  LIMITED,
  async () => {
    api = await fakeApi(hang);
    const { client } = api;
    const before = Array.from({ length: 16 }, () => client.get(PATH, {}, { timeoutMs: 60_000 }).catch(() => {}));
    await until(() => api?.calls.length === before.length, "all connections being in use");
    const error = await client.get(PATH, {}, { timeoutMs: 100 }).catch((reason: unknown) => reason);
    assert.match(describeError(error), /no response within 0\.1 s/);
    client.close();
    await Promise.all(before);
  },
);

test("an election continues after status 101 for a renewal, and it can be stopped", LIMITED, async () => {
  let renewals = 0;
  const lease = (spec: object) => json({ metadata: { name: "a", uid: "1", resourceVersion: "1" }, spec });
  api = await fakeApi((call) => {
    if (call.method === "GET") return lease({})(call);
    renewals += 1;
    return renewals === 2 ? switchProtocols(call) : lease(JSON.parse(call.body).spec)(call);
  });
  const { client } = api;
  const times = { leaseSeconds: 3, renewDeadlineSeconds: 2, retrySeconds: 0.1 };
  const names = { namespace: "shop", name: "a", identity: "me" };
  const election = runElection({ client, ...names, ...times, log: silentLogger, onStartedLeading: () => {} });
  await until(() => renewals >= 4, "renewals after the 101");
  assert.equal(election.leading, true);
  await election.stop();
});
