import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import { describeError, hasCode, statusOf } from "#lib/errors/errors.ts";
import {
  clientFor,
  end,
  type FakeApi,
  fakeApi,
  hang,
  inTurn,
  json,
  object,
  page,
  type Responder,
  refuse,
  reset,
} from "#test/fakes/kube-api.ts";
import { listAll } from "./list.ts";
import { retryAfterOf } from "./status.ts";

const PATH = "/api/v1/namespaces/shop/configmaps/web";
let api: FakeApi;

async function start(respond: Responder): Promise<FakeApi> {
  api = await fakeApi(respond);
  return api;
}
afterEach(() => api.close());

/** Returns the reason with which `promise` rejects. */
async function failure(promise: Promise<unknown>): Promise<unknown> {
  const nothing = Symbol("nothing");
  const result = await promise.then(
    () => nothing,
    (error: unknown) => error,
  );
  assert.notEqual(result, nothing, "it should have failed");
  return result;
}

describe("calls", () => {
  it("are the documented requests of the API", async () => {
    const { client, calls } = await start(json({}));
    const body = { a: "é" };
    await client.get(PATH, { labelSelector: "a=b" });
    await client.apply(PATH, body, { fieldManager: "me", force: true, dryRun: true });
    await client.apply(PATH, body, { fieldManager: "me" });
    await client.mergePatch(PATH, body);
    await client.jsonPatch(PATH, [{ op: "test", path: "/a", value: 1 }], { fieldManager: "me" });
    await client.create("/api/v1/namespaces/shop/configmaps", body, { dryRun: true });
    await client.replace(PATH, body);
    await client.delete(PATH, { preconditions: { uid: "u" }, propagationPolicy: "Background", dryRun: true });
    const seen = calls.map(({ method, query, headers, body }) => [
      method,
      query.toString(),
      headers["content-type"] ?? "",
      body,
    ]);
    const text = '{"a":"é"}';
    assert.deepEqual(seen, [
      ["GET", "labelSelector=a%3Db", "", ""],
      ["PATCH", "fieldManager=me&force=true&dryRun=All", "application/apply-patch+yaml", text],
      ["PATCH", "fieldManager=me", "application/apply-patch+yaml", text],
      ["PATCH", "", "application/merge-patch+json", text],
      ["PATCH", "fieldManager=me", "application/json-patch+json", '[{"op":"test","path":"/a","value":1}]'],
      ["POST", "dryRun=All", "application/json", text],
      ["PUT", "", "application/json", text],
      ["DELETE", "dryRun=All", "application/json", '{"preconditions":{"uid":"u"},"propagationPolicy":"Background"}'],
    ]);
  });

  it("share few connections", async () => {
    const opened = new Set();
    const { client } = await start((call) => {
      opened.add(call.socket);
      return json({})(call);
    });
    for (let round = 0; round < 5; round++) await Promise.all(Array.from({ length: 40 }, () => client.get(PATH)));
    assert.ok(opened.size <= 16, `${opened.size} connections`);
  });

  it("keep the path prefix of a server URL", async () => {
    const { url, calls } = await start(json({}));
    const client = clientFor(new URL("/k8s/clusters/one/", url));
    await client.get(PATH);
    client.close();
    assert.equal(calls[0]?.path, `/k8s/clusters/one${PATH}`);
  });
});

describe("failures", () => {
  it("have the server's status, reason and message", async () => {
    const { client } = await start(refuse(409, "Conflict"));
    const error = await failure(client.replace(PATH, {}));
    assert.ok(hasCode(error, "kube-status"));
    assert.equal(error.status, 409);
    assert.equal(error.message, `PUT ${PATH}: 409 Conflict: Conflict by the fake`);
  });

  it("410 is kube-expired", async () => {
    const { client } = await start(refuse(410, "Expired"));
    const error = await failure(client.get(PATH));
    assert.ok(hasCode(error, "kube-expired"));
    assert.equal(error.status, 410);
  });

  it("a page of a proxy instead of a Status is quoted in part", async () => {
    const { client } = await start(({ response }) => void response.writeHead(502).end(`<html>${"x".repeat(5_000)}`));
    const error = await failure(client.get(PATH));
    assert.equal(statusOf(error), 502);
    assert.match(describeError(error), /^GET [^ ]+: 502: <html>x+\.\.\.$/);
    assert.ok(describeError(error).length < 1_200);
  });

  it("a response that is not JSON is data-corrupt", async () => {
    const { client } = await start(({ response }) => void response.end('{"half":'));
    assert.ok(hasCode(await failure(client.get(PATH)), "data-corrupt"));
  });

  it("a broken response and a refused connection are kube-unreachable", async () => {
    const { client } = await start(({ response, socket }) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("{");
      setTimeout(() => socket.destroy(), 5);
    });
    assert.ok(hasCode(await failure(client.get(PATH)), "kube-unreachable"));
    await api.close();
    const refused = await failure(clientFor(api.url).get(PATH));
    assert.ok(hasCode(refused, "kube-unreachable"));
    assert.match(describeError(refused), /ECONNREFUSED/);
  });

  it("a call without a response ends at the deadline, and the next call uses a new connection", async () => {
    let silent = false;
    const { client, calls } = await start((call) => {
      // Two concurrent calls keep two connections alive.
      if (calls.length > 2) return silent ? hang(call) : json({ fine: true })(call);
      return void setTimeout(() => json({})(call), 50);
    });
    await Promise.all([client.get(PATH), client.get(PATH)]);
    silent = true;
    const error = await failure(client.get(PATH, {}, { timeoutMs: 100 }));
    assert.ok(hasCode(error, "kube-unreachable"));
    assert.match(describeError(error), /no response within 0\.1 s/);
    silent = false;
    assert.deepEqual(await client.get(PATH), { fine: true });
    assert.deepEqual(
      calls.map((call) => call.reused),
      [false, false, true, false],
    );
  });

  it("a caller that aborts gets its own reason", async () => {
    const { client } = await start(hang);
    const control = new AbortController();
    const running = failure(client.get(PATH, {}, { signal: control.signal }));
    setTimeout(() => control.abort(new Error("enough")), 20);
    assert.equal(describeError(await running), "enough");
    assert.equal(describeError(await failure(client.get(PATH, {}, { signal: control.signal }))), "enough");
  });
});

describe("a call that the server throttles", () => {
  const soon = { "retry-after": "0" };

  for (const [status, reason] of [
    [429, "TooManyRequests"],
    [503, "ServiceUnavailable"],
  ] as const) {
    it(`${status} with Retry-After is retried`, async () => {
      const { client, calls } = await start(inTurn(refuse(status, reason, soon), json({ fine: true })));
      assert.deepEqual(await client.get(PATH), { fine: true });
      assert.equal(calls.length, 2);
    });
  }

  it("waits as long as Retry-After says", async () => {
    const { client, calls } = await start(inTurn(refuse(429, "TooManyRequests", { "retry-after": "1" }), json({})));
    await client.create(PATH, {});
    const [first, second] = calls;
    assert.ok(second!.at - first!.at >= 990, `${second!.at - first!.at} ms`);
  });

  it("fails after three attempts", async () => {
    const { client, calls } = await start(refuse(429, "TooManyRequests", soon));
    const error = await failure(client.get(PATH));
    assert.deepEqual([statusOf(error), retryAfterOf(error), calls.length], [429, 0, 3]);
  });

  it("does not wait beyond its deadline: the error has the delay", async () => {
    const { client, calls } = await start(refuse(429, "TooManyRequests", { "retry-after": "30" }));
    const error = await failure(client.get(PATH));
    assert.deepEqual([retryAfterOf(error), calls.length], [30_000, 1]);
  });

  it("a creation is not repeated after 503, nor anything without Retry-After", async () => {
    const { client, calls } = await start(inTurn(refuse(503, "ServiceUnavailable", soon), refuse(429, "x")));
    assert.equal(statusOf(await failure(client.create(PATH, {}))), 503);
    assert.equal(statusOf(await failure(client.get(PATH))), 429);
    assert.equal(calls.length, 2);
  });
});

describe("a kept-alive connection that the server has closed", () => {
  /** Resets every connection at its second request. */
  const fickle: Responder = (call) => (call.reused ? reset(call) : json({})(call));

  it("does not fail an idempotent call", async () => {
    const { client } = await start(fickle);
    await client.get(PATH);
    await client.apply(PATH, {}, { fieldManager: "me" });
    await client.replace(PATH, {});
    await client.delete(PATH);
  });

  it("does not fail such a call either if several connections were closed", async () => {
    const { client } = await start((call) =>
      call.reused ? reset(call) : void setTimeout(() => json({ fine: true })(call), 50),
    );
    await Promise.all([client.get(PATH), client.get(PATH), client.get(PATH)]);
    assert.equal(api.connections(), 3);
    assert.deepEqual(await client.get(PATH), { fine: true });
  });

  it("fails a call that is not idempotent", async () => {
    const { client } = await start(fickle);
    await client.get(PATH);
    assert.ok(hasCode(await failure(client.create(PATH, {})), "kube-unreachable"));
    await client.get(PATH);
    assert.ok(hasCode(await failure(client.jsonPatch(PATH, [])), "kube-unreachable"));
  });
});

describe("list", () => {
  it("reads all pages", async () => {
    const { client, calls } = await start(
      inTurn(page([object("a", "1"), object("b", "2")], "9", "more"), page([object("c", "3")], "9")),
    );
    const { items, resourceVersion } = await client.list(PATH, { labelSelector: "x" });
    assert.equal(resourceVersion, "9");
    assert.deepEqual(items, [object("a", "1"), object("b", "2"), object("c", "3")]);
    assert.deepEqual(
      calls.map(({ query }) => query.toString()),
      ["limit=500&labelSelector=x", "limit=500&labelSelector=x&continue=more"],
    );
  });

  it("starts over if the token expires between pages", async () => {
    const { client } = await start(
      inTurn(page([object("gone", "1")], "5", "more"), refuse(410, "Expired"), page([object("a", "6")], "7")),
    );
    const { items, resourceVersion } = await client.list(PATH);
    assert.deepEqual([items, resourceVersion], [[object("a", "6")], "7"]);
  });

  it("does not start over indefinitely", async () => {
    const { client, calls } = await start((call) =>
      call.query.has("continue") ? refuse(410, "Expired")(call) : page([], "5", "more")(call),
    );
    assert.ok(hasCode(await failure(client.list(PATH)), "kube-expired"));
    assert.equal(calls.length, 8);
  });

  it("lets the event loop run between pages", async () => {
    let turns = 0;
    let isOver = false;
    const turn = () => {
      turns++;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    let pages = 0;
    const get = async <T>() =>
      ({ metadata: { resourceVersion: "1", continue: ++pages < 20 ? "more" : "" }, items: [] }) as T;
    api = await fakeApi(hang);
    await listAll({ get }, PATH);
    isOver = true;
    assert.ok(turns >= 19, `${turns} turns`);
  });

  it("reads `items: null` as empty, and rejects a response that is not a list", async () => {
    const empty = { metadata: { resourceVersion: "1" }, items: null };
    const { client } = await start(inTurn(json(empty), json({ kind: "Pod", metadata: { resourceVersion: "1" } })));
    assert.deepEqual(await client.list(PATH), { items: [], resourceVersion: "1" });
    assert.ok(hasCode(await failure(client.list(PATH)), "data-corrupt"));
  });
});

describe("raw", () => {
  it("returns text", async () => {
    const { client } = await start(({ response }) => {
      response.writeHead(200, { "content-type": "text/plain" }).end("up 1\n");
    });
    assert.deepEqual(await client.raw("/metrics"), { status: 200, contentType: "text/plain", text: "up 1\n" });
  });

  it("throws like any call, unless anyStatus is set", async () => {
    const { client, calls } = await start(refuse(503, "x", { "retry-after": "0" }));
    assert.equal(statusOf(await failure(client.raw("/x"))), 503);
    assert.equal((await client.raw("/x", { anyStatus: true, method: "POST", body: "hi" })).status, 503);
    assert.deepEqual(
      calls.map(({ method, body }) => [method, body]),
      [
        ["GET", ""],
        ["POST", "hi"],
      ],
    );
  });

  it("does not read more than maxBytes", async () => {
    const { client } = await start(({ response }) => void response.end("x".repeat(2_000)));
    assert.ok(hasCode(await failure(client.raw("/x", { maxBytes: 1_000 })), "data-corrupt"));
  });
});

describe("close", () => {
  it("ends the connections", async () => {
    const { client } = await start(inTurn(json({}), end));
    await client.get(PATH);
    assert.equal(api.connections(), 1);
    client.close();
    const deadline = performance.now() + 10_000;
    while (api.connections() > 0 && performance.now() < deadline) await new Promise((next) => setImmediate(next));
    assert.equal(api.connections(), 0);
  });
});
