import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { type TestContext, test } from "node:test";
import { stopTime } from "#test/fakes/stopped-time.ts";
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
  ["get", (client) => client.get(PATH), { method: "GET", idempotent: true }],
  [
    "get with a media type",
    (client) => client.get(PATH, { a: 1 }, { accept: "application/x" }),
    { method: "GET", path: `${PATH}?a=1`, headers: { accept: "application/x" }, idempotent: true },
  ],
  [
    "apply",
    (client) => client.apply(PATH, { a: 1 }, { fieldManager: "me", force: false, dryRun: false }),
    {
      method: "PATCH",
      path: `${PATH}?fieldManager=me`,
      body: '{"a":1}',
      headers: { "content-type": "application/apply-patch+yaml" },
      idempotent: true,
    },
  ],
  [
    "mergePatch",
    (client) => client.mergePatch(PATH, { a: null }),
    {
      method: "PATCH",
      body: '{"a":null}',
      headers: { "content-type": "application/merge-patch+json" },
      idempotent: true,
    },
  ],
  [
    "jsonPatch",
    (client) => client.jsonPatch(PATH, []),
    { method: "PATCH", body: "[]", headers: { "content-type": "application/json-patch+json" }, idempotent: false },
  ],
  [
    "create",
    (client) => client.create(PATH, {}),
    { method: "POST", body: "{}", headers: JSON_TYPE, idempotent: false },
  ],
  [
    "replace",
    (client) => client.replace(PATH, {}),
    { method: "PUT", body: "{}", headers: JSON_TYPE, idempotent: true },
  ],
  ["delete", (client) => client.delete(PATH), { method: "DELETE", body: "{}", headers: JSON_TYPE, idempotent: true }],
  ["raw", (client) => client.raw(PATH), { method: "GET", headers: { accept: "*/*" }, idempotent: true }],
  [
    "raw with everything",
    (client) => client.raw(PATH, { method: "POST", query: { b: "c" }, headers: { x: "y" }, body: "text" }),
    { method: "POST", path: `${PATH}?b=c`, headers: { accept: "*/*", x: "y" }, body: "text", idempotent: false },
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

test("a response has its status, its text, and its type if there is one", async () => {
  const { client } = start([{ statusCode: 204, text: "é" }, {}]);
  assert.deepEqual(await client.raw(PATH), { status: 204, contentType: "", text: "é" });
  assert.deepEqual(await client.raw(PATH), { status: 0, contentType: "", text: "" });
});

test("400 is the lowest status that is an error", async () => {
  const { client } = start([{ statusCode: 399, text: "{}" }, { statusCode: 400 }]);
  await client.get(PATH);
  await assert.rejects(client.get(PATH), { code: "kube-status", status: 400, message: `GET ${PATH}: 400` });
});

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

function silent(t: TestContext, defaults = {}) {
  const pass = stopTime(t, 1_000);
  const transport = {
    send: ({ signal }: Exchange) =>
      new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    dropIdle() {},
    close() {},
  };
  return { pass, client: createClient(transport, defaults) };
}

for (const [what, defaults, call, ms] of [
  ["a call", {}, (client) => client.get(PATH), 10_000],
  ["raw", {}, (client) => client.raw(PATH), 10_000],
  ["a call of a client with another deadline", { timeoutMs: 3_000 }, (client) => client.get(PATH), 3_000],
  ["raw of a client with another deadline", { timeoutMs: 3_000 }, (client) => client.raw(PATH), 3_000],
  ["a call with its own", { timeoutMs: 3_000 }, (client) => client.delete(PATH, { timeoutMs: 5_000 }), 5_000],
  ["raw with its own", {}, (client) => client.raw(PATH, { timeoutMs: 5_000 }), 5_000],
] as const satisfies ReadonlyArray<readonly [string, object, (client: KubeClient) => Promise<unknown>, number]>) {
  test(`the deadline of ${what} is ${ms} ms`, async (t) => {
    const { pass, client } = silent(t, defaults);
    const errors: Error[] = [];
    void call(client).catch((error: Error) => errors.push(error));
    await pass(ms - 1, ms - 1);
    assert.equal(errors.length, 0);
    await pass(1, 1);
    assert.match(errors[0]?.message ?? "", new RegExp(`no response within ${ms / 1_000} s$`));
  });
}

for (const [what, status, call, attempts] of [
  ["a read is repeated after 429", 429, (client) => client.get(PATH), 2],
  ["a read is repeated after 503", 503, (client) => client.get(PATH), 2],
  ["a read is not repeated after 500", 500, (client) => client.get(PATH), 1],
  ["a creation is repeated after 429", 429, (client) => client.create(PATH, {}), 2],
  ["a creation is not repeated after 503", 503, (client) => client.create(PATH, {}), 1],
  ["a JSON patch is not repeated after 503", 503, (client) => client.jsonPatch(PATH, []), 1],
  ["raw is never repeated", 429, (client) => client.raw(PATH), 1],
] as const satisfies ReadonlyArray<readonly [string, number, (client: KubeClient) => Promise<unknown>, number]>) {
  test(what, async () => {
    const refused = { statusCode: status, headers: { "retry-after": "0" } };
    const { client, sent } = start([refused, { statusCode: 200, text: "{}" }]);
    await call(client).catch(() => {});
    assert.equal(sent.length, attempts);
  });
}

test("a refused call waits for Retry-After, plus up to half of it", async (t) => {
  for (const [drawn, waitMs] of [
    [0, 2_000],
    [1, 3_000],
  ] as const) {
    const pass = stopTime(t, 1_000);
    const refused = { statusCode: 429, headers: { "retry-after": "2" } };
    const { client, sent } = start([refused, { statusCode: 200, text: "{}" }], { random: () => drawn });
    const done = client.get(PATH);
    await pass(waitMs - 1, waitMs - 1);
    assert.equal(sent.length, 1);
    await pass(1, 1);
    await done;
    assert.equal(sent.length, 2);
    t.mock.timers.reset();
  }
});

test("close closes the transport", () => {
  const { client, closed } = start();
  client.close();
  assert.deepEqual(closed, { drops: 0, closes: 1 });
});
