import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { type TestContext, test } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { createClient, type KubeClient } from "./client.ts";
import type { Exchange } from "./transport.ts";

const PATH = "/api/v1/namespaces/shop/configmaps/web";
const MIB = 1024 * 1024;

interface Answer {
  readonly statusCode?: number | undefined;
  readonly headers?: Record<string, string>;
  readonly text?: string;
}

/** A client whose requests get these answers in turn. The last answer repeats. */
function start(answers: readonly Answer[] = [{ statusCode: 200, text: "{}" }], defaults = {}) {
  const sent: Exchange[] = [];
  const closed = { drops: 0, closes: 0 };
  const transport = {
    send: async (exchange: Exchange) => {
      sent.push(exchange);
      const { text = "", headers = {}, statusCode } = answers[Math.min(sent.length, answers.length) - 1] ?? {};
      return Object.assign(Readable.from([Buffer.from(text)]), { statusCode, headers }) as unknown as IncomingMessage;
    },
    dropIdle: () => {
      closed.drops += 1;
    },
    close: () => {
      closed.closes += 1;
    },
  };
  return { client: createClient(transport, defaults), sent, closed };
}

const JSON_TYPE = { "content-type": "application/json" };

for (const [what, call, expected] of [
  ["get", (client) => client.get(PATH), { method: "GET" }],
  [
    "get with a media type",
    (client) => client.get(PATH, { a: 1 }, { accept: "application/x" }),
    { method: "GET", path: `${PATH}?a=1`, headers: { accept: "application/x" } },
  ],
  [
    "apply",
    (client) => client.apply(PATH, { a: 1 }, { fieldManager: "me", force: true, dryRun: true }),
    {
      method: "PATCH",
      path: `${PATH}?fieldManager=me&force=true&dryRun=All`,
      body: '{"a":1}',
      headers: { "content-type": "application/apply-patch+yaml" },
    },
  ],
  [
    "mergePatch",
    (client) => client.mergePatch(PATH, { a: null }),
    {
      method: "PATCH",
      body: '{"a":null}',
      headers: { "content-type": "application/merge-patch+json" },
    },
  ],
  [
    "jsonPatch",
    (client) => client.jsonPatch(PATH, []),
    { method: "PATCH", body: "[]", headers: { "content-type": "application/json-patch+json" } },
  ],
  ["create", (client) => client.create(PATH, {}), { method: "POST", body: "{}", headers: JSON_TYPE }],
  ["replace", (client) => client.replace(PATH, {}), { method: "PUT", body: "{}", headers: JSON_TYPE }],
  [
    "delete with preconditions",
    (client) => client.delete(PATH, { preconditions: { uid: "u" } }),
    {
      method: "DELETE",
      body: '{"preconditions":{"uid":"u"}}',
      headers: JSON_TYPE,
    },
  ],
  ["raw", (client) => client.raw(PATH), { method: "GET", headers: { accept: "*/*" } }],
  [
    "raw with everything",
    (client) => client.raw(PATH, { method: "POST", query: { b: "c" }, headers: { x: "y" }, body: "text" }),
    { method: "POST", path: `${PATH}?b=c`, headers: { accept: "*/*", x: "y" }, body: "text" },
  ],
] as const satisfies ReadonlyArray<readonly [string, (client: KubeClient) => Promise<unknown>, object]>) {
  test(`the exchange of ${what}`, async () => {
    const { client, sent } = start();
    await call(client);
    const { signal, ...exchange } = sent[0] ?? assert.fail();
    assert.deepEqual(exchange, { path: PATH, channel: "call", ...expected });
    assert.equal(signal.aborted, false);
  });
}

for (const [headers, type] of [
  [{}, "no type"],
  [{ "content-type": "text/html" }, "text/html"],
] as const) {
  test(`a response of ${type} that is not JSON is reported as such`, async () => {
    const { client } = start([{ statusCode: 200, headers, text: "<html>" }]);
    const message = `POST ${PATH}: the response is not JSON (${type})`;
    await assert.rejects(client.create(PATH, {}, { dryRun: true }), { code: "data-corrupt", message });
  });
}

test("a response of 16 MiB is read, but not a longer one", async () => {
  const json = (length: number) => ({ statusCode: 200, text: JSON.stringify({ x: "x".repeat(length - 8) }) });
  const { client } = start([
    json(16 * MIB),
    json(16 * MIB + 1),
    json(16 * MIB),
    json(16 * MIB + 1),
    json(10),
    json(11),
  ]);
  const message = `GET ${PATH}: the response is longer than ${16 * MIB} bytes`;
  await client.get(PATH);
  await assert.rejects(client.get(PATH), { code: "data-corrupt", message });
  await client.raw(PATH);
  await assert.rejects(client.raw(PATH), { code: "data-corrupt", message });
  await client.get(PATH, {}, { maxBytes: 10 });
  await assert.rejects(client.get(PATH, {}, { maxBytes: 10 }), { code: "data-corrupt" });
});

test("a refused call is not repeated: its error has the reason, and the delay that the server asks for", async () => {
  const refused = { kind: "Status", reason: "TooManyRequests", message: "slow down" };
  const { client, sent } = start([
    { statusCode: 429, headers: { "retry-after": "2" }, text: JSON.stringify(refused) },
    { statusCode: 200, text: "{}" },
  ]);
  const message = `GET ${PATH}: 429 TooManyRequests: slow down`;
  await assert.rejects(client.get(PATH), { code: "kube-status", status: 429, message, retryAfterMs: 2_000 });
  assert.equal(sent.length, 1);
});

test("a refusal of the credentials names the server", async () => {
  const { client } = start([{ statusCode: 401 }], { place: "https://a.test (context)" });
  await assert.rejects(client.get(PATH), {
    message: `GET ${PATH} (the credentials for https://a.test (context)): 401`,
  });
});

test("raw throws like any call, unless anyStatus is set", async () => {
  const { client } = start([{ statusCode: 503, text: "down" }]);
  await assert.rejects(client.raw(PATH), { status: 503 });
  assert.deepEqual(await client.raw(PATH, { anyStatus: true }), { status: 503, contentType: "", text: "down" });
});

/** A client of a server that never answers. The test decides when the deadline fires. */
function silent(t: TestContext, defaults = {}) {
  const timeouts: number[] = [];
  const deadline = new AbortController();
  t.mock.method(AbortSignal, "timeout", (ms: number) => {
    timeouts.push(ms);
    return deadline.signal;
  });
  const closed = { drops: 0 };
  const transport = {
    send: () => new Promise<never>(() => {}),
    dropIdle: () => {
      closed.drops += 1;
    },
    close() {},
  };
  return { timeouts, deadline, closed, client: createClient(transport, defaults) };
}

for (const [what, defaults, call, ms] of [
  ["a call", {}, (client) => client.get(PATH), 10_000],
  ["a call of a client with another deadline", { timeoutMs: 3_000 }, (client) => client.get(PATH), 3_000],
  ["a call that ends with the Lease", {}, (client) => client.get(PATH, {}, { timeoutMs: 2_999.5 }), 3_000],
  ["a call with its own", { timeoutMs: 3_000 }, (client) => client.delete(PATH, { timeoutMs: 5_000 }), 5_000],
] as const satisfies ReadonlyArray<readonly [string, object, (client: KubeClient) => Promise<unknown>, number]>) {
  test(`${what} ends after ${ms} ms, even if its request does not, and idle connections are dropped`, async (t) => {
    const { client, timeouts, deadline, closed } = silent(t, { place: "https://a.test", ...defaults });
    const ended = assert.rejects(call(client), {
      code: "kube-unreachable",
      message: new RegExp(`: no response within ${ms / 1_000} s from https://a\\.test$`),
    });
    assert.deepEqual([timeouts, closed.drops], [[ms], 0]);
    deadline.abort();
    await ended;
    assert.equal(closed.drops, 1);
  });
}

test("a call that the caller aborts ends with the caller's reason, and does not begin after that", async (t) => {
  const { client, timeouts, closed } = silent(t);
  const caller = new AbortController();
  const reason = new Error("enough");
  const ended = assert.rejects(client.get(PATH, {}, { signal: caller.signal }), reason);
  caller.abort(reason);
  await ended;
  await assert.rejects(client.get(PATH, {}, { signal: caller.signal }), reason);
  assert.deepEqual([timeouts.length, closed.drops], [1, 0]);
});

test("an error of the transport is the cause of kube-unreachable, unless it has a code", async () => {
  const failing = (error: Error) =>
    createClient({ send: () => Promise.reject(error), dropIdle() {}, close() {} }).get(PATH);
  const cause = new Error("connect ECONNREFUSED");
  const message = `GET ${PATH}: the API server cannot be reached`;
  await assert.rejects(failing(cause), { code: "kube-unreachable", message, cause });
  const coded = new SwitchbackError("config-invalid", "no token");
  await assert.rejects(failing(coded), coded);
});

const page = (names: readonly string[] | null, resourceVersion: string, next?: string): Answer => {
  const metadata = { resourceVersion, ...(next && { continue: next }) };
  const items = names?.map((name) => ({ metadata: { name } })) ?? null;
  return { statusCode: 200, text: JSON.stringify({ kind: "List", metadata, items }) };
};

test("a list whose items are null is empty, and an object that is not a list is an error", async () => {
  const { client } = start([page(null, "1"), { statusCode: 200, text: '{"metadata":{"resourceVersion":"1"}}' }]);
  assert.deepEqual(await client.list(PATH), { items: [], resourceVersion: "1" });
  await assert.rejects(client.list(PATH), { code: "data-corrupt" });
});

test("close closes the transport", () => {
  const { client, closed } = start();
  client.close();
  assert.deepEqual(closed, { drops: 0, closes: 1 });
});
