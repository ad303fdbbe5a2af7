import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { askJson } from "./ask-json.ts";
import { http } from "./http.ts";
import { listen } from "./listen.ts";

/** Sends a request to a server that gives this answer, and records the request. */
async function ask(t: TestContext, status: number, ...parts: string[]) {
  const requests: string[] = [];
  const server = http.createServer(({ url, headers }, response) => {
    requests.push(`${url} ${headers.connection}`);
    response.writeHead(status);
    for (const part of parts) response.write(part);
    response.end();
  });
  await listen(server, 0, "127.0.0.1");
  t.after(() => void server.closeAllConnections());
  t.after(() => void server.close());
  const answer = await askJson("127.0.0.1", (server.address() as AddressInfo).port, "/targets").catch((error) => error);
  return { answer, requests };
}

test("the result is the JSON of the page, and the connection is not kept alive", async (t) => {
  assert.deepEqual(await ask(t, 200, '{"listening":["a",', '"é"]}'), {
    answer: { listening: ["a", "é"] },
    requests: ["/targets close"],
  });
});

test("an answer other than 200, an answer that is not JSON, and a missing answer are errors", async (t) => {
  assert.match(String((await ask(t, 404, "{}")).answer), /^Error: \/targets answered 404$/);
  assert.ok((await ask(t, 200, "not found")).answer instanceof SyntaxError);
  await assert.rejects(askJson("127.0.0.1", 1, "/targets"), { code: "ECONNREFUSED" });
});

test("an answer of a million characters is accepted, a longer one is not", async (t) => {
  const json = (length: number) => `"${"x".repeat(length - 2)}"`;
  assert.equal(String((await ask(t, 200, json(1_000_000))).answer).length, 999_998);
  const { answer } = await ask(t, 200, json(1_000_001));
  assert.match(String(answer), /^Error: \/targets answered more than 1000000 bytes$/);
});

test("an answer that takes more than two seconds is an error", async (t) => {
  const timeouts: number[] = [];
  const late = new AbortController();
  t.mock.method(AbortSignal, "timeout", (ms: number) => {
    timeouts.push(ms);
    return late.signal;
  });
  const server = http.createServer(() => late.abort(new Error("late")));
  await listen(server, 0, "127.0.0.1");
  t.after(() => void server.closeAllConnections());
  t.after(() => void server.close());
  await assert.rejects(askJson("127.0.0.1", (server.address() as AddressInfo).port, "/targets"), {
    name: "AbortError",
  });
  assert.deepEqual(timeouts, [2_000]);
});
