import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { type TestContext, test } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { fc } from "#test/property.ts";
import { createLineSplitter, openStream, type StreamOptions } from "./stream.ts";
import type { Exchange } from "./transport.ts";

type Response = PassThrough & { statusCode: number | undefined; headers: Record<string, string> };

/** A stream whose response the test controls. Time passes only in `pass`. */
function start(t: TestContext, options: Partial<StreamOptions> = {}) {
  const pass = stopTime(t, 1_000);
  const sent: Exchange[] = [];
  const seen: string[] = [];
  let dropped = 0;
  const opened = Promise.withResolvers<IncomingMessage>();
  const transport = {
    send: async (exchange: Exchange) => {
      sent.push(exchange);
      exchange.signal.addEventListener("abort", () => opened.reject(exchange.signal.reason));
      return await opened.promise;
    },
    dropIdle: () => {
      dropped += 1;
    },
    close() {},
  };
  const caller = new AbortController();
  const ended = openStream(transport, "GET /pods", "/pods?watch=true", {
    signal: caller.signal,
    idleMs: 90_000,
    onOpen: () => seen.push("open"),
    onLine: (line) => seen.push(line),
    ...options,
  });
  const outcome: { is: unknown } = { is: "open" };
  ended.then(
    (end) => {
      outcome.is = end;
    },
    (error) => {
      outcome.is = `${error.code}: ${error.message}`;
    },
  );
  const respond = async (statusCode: number | undefined = 200, headers = {}): Promise<Response> => {
    const response: Response = Object.assign(new PassThrough(), { statusCode, headers });
    opened.resolve(response as unknown as IncomingMessage);
    await pass(0);
    return response;
  };
  return { pass, sent, seen, caller, ended, outcome, respond, dropped: () => dropped };
}

test("a stream is a GET on its own connection, with the requested media type", async (t) => {
  for (const [accept, headers] of [
    [undefined, {}],
    ["application/x", { headers: { accept: "application/x" } }],
  ] as const) {
    const { sent, caller } = start(t, accept === undefined ? {} : { accept });
    const { signal, ...exchange } = sent[0] ?? assert.fail();
    assert.deepEqual(exchange, {
      method: "GET",
      path: "/pods?watch=true",
      channel: "watch",
      ...headers,
    });
    caller.abort();
    assert.equal(signal.aborted, true);
    t.mock.reset();
    t.mock.timers.reset();
  }
});

for (const [openMs, ms] of [
  [undefined, 30_000],
  [5_000, 5_000],
] as const) {
  test(`a stream without a response for ${ms} ms ends, and idle connections are dropped`, async (t) => {
    const { pass, outcome, dropped } = start(t, openMs === undefined ? {} : { openMs });
    await pass(ms - 1, ms - 1);
    assert.deepEqual([outcome.is, dropped()], ["open", 0]);
    await pass(1, 1);
    assert.deepEqual([outcome.is, dropped()], ["kube-unreachable: GET /pods: no response", 1]);
  });
}

test("lines come after the stream is open, and the time to open it no longer counts", async (t) => {
  const { pass, seen, sent, outcome, respond, dropped } = start(t);
  await pass(29_000);
  const response = await respond();
  assert.deepEqual(seen, ["open"]);
  response.write("one\ntw");
  response.write("o\n");
  const accent = Buffer.from("é\n");
  response.write(accent.subarray(0, 1));
  response.write(accent.subarray(1));
  await pass(60_000);
  assert.deepEqual([seen, outcome.is, dropped()], [["open", "one", "two", "é"], "open", 0]);
  response.end();
  await pass(0);
  assert.deepEqual([outcome.is, sent[0]?.signal.aborted], ["closed", true]);
});

test("a stream is idle after idleMs without data", async (t) => {
  const { pass, seen, outcome, respond } = start(t);
  const response = await respond();
  await pass(89_000);
  assert.equal(outcome.is, "open");
  await pass(1_000);
  assert.equal(outcome.is, "idle");
  response.write("late\n");
  await pass(0);
  assert.deepEqual(seen, ["open"]);
});

const unreachable = "kube-unreachable: GET /pods: the API server cannot be reached";

for (const [what, act, cause] of [
  [
    "in the middle of a line",
    (response: Response) => void response.end("half"),
    "the response ended in the middle of a line",
  ],
  ["by its connection", (response: Response) => void response.destroy(), "Premature close"],
  ["by an error", (response: Response) => void response.destroy(new Error("aborted")), "aborted"],
] as const) {
  test(`a stream that ends ${what} is an error with the right cause`, async (t) => {
    const { pass, outcome, ended, respond } = start(t);
    act(await respond());
    await pass(0);
    assert.equal(outcome.is, unreachable);
    await assert.rejects(ended, (error: Error) => (error.cause as Error).message === cause);
  });
}

test("an error of a line handler is thrown unchanged, and no other line follows", async (t) => {
  const lines: string[] = [];
  const broken = new SwitchbackError("data-corrupt", "broken");
  const { pass, ended, respond, sent } = start(t, {
    onLine: (line) => {
      lines.push(line);
      throw broken;
    },
  });
  ended.catch(() => {});
  const response = await respond();
  response.write("one\n");
  response.write("two\n");
  await pass(0);
  await assert.rejects(ended, broken);
  assert.deepEqual([lines, sent[0]?.signal.aborted], [["one"], true]);
});

for (const [status, headers, text, expected] of [
  [400, {}, "bad", "kube-status: GET /pods: 400: bad"],
  [410, {}, "", "kube-expired: GET /pods: 410"],
  [500, {}, "x".repeat(1024 * 1024 + 1), `data-corrupt: GET /pods: the response is longer than ${1024 * 1024} bytes`],
] as const) {
  test(`a response of ${status} with ${text.length} bytes is an error, and the stream never opens`, async (t) => {
    const { pass, seen, outcome, respond } = start(t);
    const response = await respond(status, headers);
    response.end(text);
    await pass(0);
    assert.deepEqual([outcome.is, seen], [expected, []]);
  });
}

test("an error response keeps its Retry-After", async (t) => {
  const { pass, ended, respond } = start(t);
  ended.catch(() => {});
  (await respond(429, { "retry-after": "7" })).end();
  await pass(0);
  await assert.rejects(ended, { retryAfterMs: 7_000 });
});

test("a caller that aborts gets its own reason, even before the start", async (t) => {
  const { pass, caller, ended, respond, sent } = start(t);
  ended.catch(() => {});
  await respond();
  const reason = new Error("enough");
  const response = sent[0]?.signal;
  caller.abort(reason);
  assert.equal(response?.reason, reason);
  await pass(0);
  await assert.rejects(
    openStream({ send: () => assert.fail(), dropIdle() {}, close() {} }, "GET /", "/", {
      signal: caller.signal,
      idleMs: 1,
      onLine() {},
    }),
    reason,
  );
});

test("the line splitter returns the same lines for any chunks", () => {
  const text = fc.array(fc.constantFrom("a", "bc", "\n", "\n\n", "é"), { maxLength: 40 });
  fc.assert(
    fc.property(fc.array(text), (chunks) => {
      const pieces = chunks.map((chunk) => chunk.join(""));
      const lines: string[] = [];
      const splitter = createLineSplitter((line) => lines.push(line));
      for (const piece of pieces) splitter.push(piece);
      const whole = pieces.join("").split("\n");
      const rest = whole.pop() ?? "";
      assert.deepEqual([lines, splitter.rest()], [whole.filter((line) => line !== ""), rest.length]);
    }),
  );
});

test("the line splitter rejects a line that never ends", () => {
  const splitter = createLineSplitter(() => {});
  const chunk = "x".repeat(8 * 1024 * 1024);
  splitter.push(chunk);
  splitter.push(chunk);
  assert.throws(() => splitter.push("x"), { code: "data-corrupt" });
});
