import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import { describeError, hasCode, statusOf } from "#lib/errors/errors.ts";
import { end, type FakeApi, fakeApi, hang, json, type Responder, refuse, until, watch } from "#test/fakes/kube-api.ts";
import type { StreamOptions } from "./stream.ts";

const PATH = "/api/v1/pods";
const HOUR = 3_600_000;
let api: FakeApi;
afterEach(() => api.close());

async function open(respond: Responder, options: Partial<StreamOptions> = {}) {
  api = await fakeApi(respond);
  const lines: string[] = [];
  const signal = new AbortController().signal;
  const whole = { signal, idleMs: HOUR, onLine: (line: string) => void lines.push(line), ...options };
  const result: unknown = await api.client.stream(PATH, {}, whole).catch((error: unknown) => error);
  return { result, lines };
}

describe("a stream", () => {
  it("returns whole lines, and reports that the server ended it", async () => {
    const { result, lines } = await open(
      watch(["one\ntw"], async (call) => {
        call.response.write("o\n");
        await end(call);
      }),
    );
    assert.deepEqual([result, lines], ["closed", ["one", "two"]]);
  });

  it("joins characters that arrive in two chunks", async () => {
    const bytes = Buffer.from("é\n");
    const { lines } = await open(
      watch([], async (call) => {
        call.response.write(bytes.subarray(0, 1));
        await new Promise((next) => setTimeout(next, 20));
        call.response.end(bytes.subarray(1));
      }),
    );
    assert.deepEqual(lines, ["é"]);
  });

  it("ends as idle after the idle timeout since the last line, and closes the connection", async () => {
    const began = performance.now();
    const { result } = await open(
      watch(["one\n"], async ({ response }) => {
        await new Promise((next) => setTimeout(next, 200));
        response.write("two\n");
      }),
      { idleMs: 300 },
    );
    assert.equal(result, "idle");
    assert.ok(performance.now() - began >= 490);
    await until(() => api.connections() === 0, "the connection being closed");
  });

  it("ends after maxMs although the server continues", async () => {
    const talk: Responder = ({ response }) => {
      const timer = setInterval(() => response.write("more\n"), 10);
      response.on("close", () => clearInterval(timer));
    };
    const { result } = await open(watch([], talk), { maxMs: 100 });
    assert.equal(result, "closed");
  });

  it("is kube-unreachable if it is not opened in time", async () => {
    const { result } = await open(hang, { openMs: 50 });
    assert.ok(hasCode(result, "kube-unreachable"));
  });

  it("rejects with an error status like a call", async () => {
    const { result } = await open(refuse(403, "Forbidden"));
    assert.equal(statusOf(result), 403);
  });

  it("rejects with the error of a line handler", async () => {
    const { result } = await open(watch(["one\n"]), {
      onLine: () => {
        throw new TypeError("broken");
      },
    });
    assert.ok(result instanceof TypeError);
  });

  it("ends with the caller's reason, and closes the connection", async () => {
    const control = new AbortController();
    const { result } = await open(watch(["one\n"], hang), {
      signal: control.signal,
      onLine: () => control.abort(new Error("enough")),
    });
    assert.equal(describeError(result), "enough");
    await until(() => api.connections() === 0, "the connection being closed");
  });

  it("does not delay a call, with any number of streams", async () => {
    api = await fakeApi((call) => (call.query.has("watch") ? watch([], hang)(call) : json({ fine: true })(call)));
    const control = new AbortController();
    const options = { signal: control.signal, idleMs: HOUR, onLine: () => {} };
    const streams = Array.from({ length: 40 }, () => api.client.stream(PATH, { watch: true }, options));
    await until(() => api.calls.length === 40, "forty streams");
    assert.deepEqual(await api.client.get(PATH), { fine: true });
    control.abort();
    await Promise.allSettled(streams);
  });
});
