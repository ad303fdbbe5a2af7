import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { describeError, hasCode } from "#lib/errors/errors.ts";
import { type FakeApi, fakeApi, hang, json, noConnections, type Responder, until } from "#test/fakes/kube-api.ts";

const PATH = "/api/v1/namespaces/shop/configmaps/web";
/** Timeout for tests that would otherwise hang. */
const LIMITED = { timeout: 20_000 };

let api: FakeApi | undefined;
afterEach(() => api?.close());

const switchProtocols: Responder = ({ socket }) =>
  void socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");

const STATUSES = [100, 101, 103, 199, 200, 200, 204, 304, 401, 410, 503];
const HEADERS = [
  "connection: upgrade\r\nupgrade: websocket\r\n",
  "connection: close\r\n",
  "connection: keep-alive\r\ncontent-length: 2\r\n",
  "content-length: 0\r\n",
  "content-length: 20\r\n",
  "transfer-encoding: chunked\r\n",
  "transfer-encoding: chunked\r\ncontent-length: 2\r\n",
  "retry-after: 0\r\ncontent-type: application/json\r\n",
  "content-encoding: gzip\r\n",
  "no colon\r\n",
  `x: ${"a".repeat(20_000)}\r\n`,
  "",
  "trailer: x\r\n",
];
const BODIES = ["", "{}", '{"a":', "2\r\n{}\r\n0\r\n\r\n", "2\r\n{", "ffffffff\r\n", '{"items":[]}\n{"a":1}\n'];
const NO_RESPONSES = ["", "x", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x15\x03\x01\x00\x02"];
const END: readonly Responder[] = [
  hang,
  ({ socket }) => void socket.end(),
  ({ socket }) => void socket.destroy(),
  ({ socket }) => void socket.resetAndDestroy(),
];
/** Every status with every header; bodies take turns. */
const ANSWERS = [
  ...NO_RESPONSES,
  ...STATUSES.flatMap((status, index) =>
    HEADERS.map((header, other) => `HTTP/1.1 ${status} x\r\n${header}\r\n${BODIES[(index + other) % BODIES.length]}`),
  ),
];

test("whatever a peer answers, each request ends at its deadline, and no connection remains", LIMITED, async () => {
  api = await fakeApi(async (call) => {
    const [number, half] = [call.query.get("number"), call.method === "POST"].map(Number) as [number, number];
    const answer = ANSWERS[number] ?? "";
    // Calls that write get the answer in two pieces.
    const end = half * Math.floor(answer.length / 2);
    for (const piece of [answer.slice(0, end), answer.slice(end)]) {
      call.socket.write(piece, "latin1");
      await new Promise(setImmediate);
    }
    await END[number % END.length]?.(call);
  });
  const { client } = api;
  const limits = { idleMs: 50, openMs: 50, onLine: () => {}, signal: new AbortController().signal };
  const ended = new Set<string>();
  // A client has 16 connections for calls.
  for (let first = 0; first < ANSWERS.length; first += 8) {
    const calls = ANSWERS.slice(first, first + 8).flatMap((_, index) => {
      const number = String(first + index);
      return [
        client.get(PATH, { number }, { timeoutMs: 100 }),
        client.create(`${PATH}?number=${number}`, {}, { timeoutMs: 100 }),
        client.stream(PATH, { number }, limits),
      ];
    });
    for (const { status } of await Promise.allSettled(calls)) ended.add(status);
  }
  // On a busy machine, even a good answer may come after the deadline.
  assert.ok(ended.has("rejected"));
  client.close();
  await noConnections(api);
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
