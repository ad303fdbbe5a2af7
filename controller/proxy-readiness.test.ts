import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, stopTime } from "#test/fakes/stopped-time.ts";
import { type AskProxy, askByHttp, ProxyReadiness } from "./proxy-readiness.ts";

const SLICES = "/apis/discovery.k8s.io/v1/namespaces/switchback-system/endpointslices";
/** Interval at which the proxies are asked. */
const POLL_MS = 200;

interface Endpoint {
  readonly address: string;
  readonly ready?: boolean;
}

/** The proxies of an EndpointSlice, and the targets that each reports to listen on. */
async function rig(t: TestContext, endpoints: readonly Endpoint[], slices = ["slice"]) {
  const log = new LineLog();
  const slice = {
    metadata: { labels: { "kubernetes.io/service-name": "switchback-proxy" } },
    endpoints: endpoints.map(({ address, ready }) => ({
      addresses: [address],
      conditions: ready === undefined ? {} : { ready },
    })),
  };
  const pass = stopTime(t, POLL_MS);
  const api = new MemoryKube();
  if (endpoints.length > 0) {
    for (const name of slices) api.set(SLICES, { ...slice, metadata: { ...slice.metadata, name } });
  }
  const bound = new Map<string, readonly string[]>();
  const asked: string[] = [];
  /** Every answer waits for this promise. */
  const held = { answers: Promise.resolve() };
  const ask: AskProxy = async (address) => {
    asked.push(address);
    await held.answers;
    const listening = bound.get(address);
    if (listening === undefined) throw new Error("connection refused");
    return { listening };
  };
  const state = { now: 0, changes: 0 };
  const listening = new ProxyReadiness({
    client: api.client,
    namespace: "switchback-system",
    log,
    ask,
    now: () => state.now,
    onChange: () => {
      state.changes += 1;
    },
  });
  assert.deepEqual([listening.synced, listening.inactiveMs], [false, 0]);
  listening.start();
  t.after(() => listening.stop());
  await pass(0);
  assert.ok(listening.synced);
  /** Waits until every asked proxy was asked twice more. */
  const polled = async () => {
    const before = asked.length;
    await pass(2 * POLL_MS);
    assert.equal(asked.length, before + 4, "two more rounds of asking");
  };
  return { listening, bound, asked, held, state, log, pass, polled };
}

test("a target is ready once every ready proxy listens; an unready proxy is not asked", async (t) => {
  const endpoints = [
    { address: "10.0.0.1" },
    { address: "10.0.0.2", ready: true },
    { address: "10.0.0.3", ready: false },
  ];
  const { listening, bound, asked, pass, polled } = await rig(t, endpoints);
  bound.set("10.0.0.1", ["a"]);
  bound.set("10.0.0.2", []);
  listening.expect(["a"]);
  await polled();
  assert.equal(listening.has("a"), false);
  bound.set("10.0.0.2", ["a"]);
  await pass(POLL_MS);
  assert.equal(listening.has("a"), true, "a is listened on");
  assert.ok(!asked.includes("10.0.0.3"));
});

test("a proxy that does not answer is waited for until a timeout", async (t) => {
  const { listening, bound, state, pass, polled } = await rig(t, [{ address: "10.0.0.1" }, { address: "10.0.0.2" }]);
  bound.set("10.0.0.1", ["a"]);
  listening.expect(["a"]);
  await polled();
  state.now = 14_999;
  await polled();
  assert.equal(listening.has("a"), false);
  state.now = 15_000;
  await pass(POLL_MS);
  assert.equal(listening.has("a"), true, "patience ends");
});

test("if no proxy is ready, a target does not wait", async (t) => {
  const { listening, state, pass } = await rig(t, []);
  const before = state.changes;
  listening.expect(["a"]);
  await pass(POLL_MS);
  assert.equal(listening.has("a"), true, "a counts");
  assert.ok(state.changes > before, "it is told");
});

test("a target that names already use is ready at once; a dropped target is no longer ready", async (t) => {
  const { listening } = await rig(t, [{ address: "10.0.0.1" }]);
  listening.trust("a");
  listening.expect(["a"]);
  assert.equal(listening.has("a"), true);
  listening.expect([]);
  assert.equal(listening.has("a"), false);
});

test("a target that waits too long is reported once; a silent proxy is logged at debug level", async (t) => {
  const { listening, bound, state, log, pass } = await rig(t, [{ address: "10.0.0.1" }, { address: "10.0.0.2" }]);
  bound.set("10.0.0.1", ["a"]);
  listening.expect(["a", "b"]);
  await pass(1);
  const silent = {
    level: "debug",
    fields: { proxy: "10.0.0.2" },
    message: "a proxy does not answer: connection refused",
  };
  assert.deepEqual(log.lines.splice(0), [silent]);
  bound.set("10.0.0.2", ["a"]);
  state.now = 15_000;
  await pass(POLL_MS);
  const message = "not every proxy listens for this target; its names no longer wait";
  const fields = { code: "proxy-not-listening", target: "b" };
  assert.deepEqual(log.lines, [{ level: "warn", fields, message }]);
  assert.deepEqual([listening.has("a"), listening.has("b"), state.changes], [true, true, 2]);
});

test("each target waits from when it was first expected, and no proxy is asked while no target waits", async (t) => {
  const { listening, bound, asked, state, pass } = await rig(t, [{ address: "10.0.0.1" }]);
  bound.set("10.0.0.1", []);
  listening.expect(["a"]);
  state.now = 10_000;
  listening.expect(["a", "b"]);
  state.now = 15_000;
  await pass(POLL_MS);
  assert.deepEqual([listening.has("a"), listening.has("b"), state.changes], [true, false, 2]);
  await pass(POLL_MS);
  assert.equal(state.changes, 2, "nothing new");
  listening.expect(["a"]);
  asked.length = 0;
  await pass(10 * POLL_MS);
  assert.deepEqual(asked, []);
  state.now = 40_000;
  listening.expect(["a", "b"]);
  await pass(POLL_MS);
  assert.equal(listening.has("b"), false, "it waits anew");
});

test("proxies are not asked about a trusted target", async (t) => {
  const { listening, asked, state, pass } = await rig(t, [{ address: "10.0.0.1" }]);
  listening.trust("a");
  listening.expect(["a"]);
  await pass(2 * POLL_MS);
  assert.deepEqual([asked, state.changes], [[], 1]);
});

test("each proxy is asked at most five times a second, however often targets are expected", async (t) => {
  const endpoints = [{ address: "10.0.0.1" }, { address: "10.0.0.2" }];
  const { listening, bound, asked, pass } = await rig(t, endpoints, ["slice", "moved"]);
  for (const { address } of endpoints) bound.set(address, []);
  for (let round = 0; round < 3; round += 1) {
    listening.expect(["a"]);
    await pass(1);
  }
  assert.deepEqual(asked, ["10.0.0.1", "10.0.0.2"]);
  await pass(POLL_MS - 3);
  assert.equal(asked.length, 2);
  await pass(3);
  assert.equal(asked.length, 4);
});

test("stopping ends the watch and waits for pending answers, which then change nothing", async (t) => {
  const { listening, bound, held, state, pass } = await rig(t, [{ address: "10.0.0.1" }]);
  bound.set("10.0.0.1", ["a"]);
  const { promise, resolve } = Promise.withResolvers<void>();
  held.answers = promise;
  listening.expect(["a"]);
  await pass(1);
  const stopped = listening.stop();
  assert.equal(await isSettled(stopped), false);
  resolve();
  await stopped;
  assert.deepEqual([listening.has("a"), state.changes], [false, 1]);
});

test("one that was never started can be stopped", async () => {
  const { client } = new MemoryKube();
  const ask = () => assert.fail("no proxy is known");
  const deps = { client, namespace: "switchback-system", log: new LineLog(), ask, now: () => 0, onChange: () => {} };
  await new ProxyReadiness(deps).stop();
});

test("over HTTP, only a well-formed answer of a proxy is accepted", async (t) => {
  let answer = '{"listening":["a",7,"b"]}';
  const server = createServer((request, response) => {
    response.statusCode = request.url === "/targets" ? 200 : 404;
    response.end(answer);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const ask = askByHttp((server.address() as AddressInfo).port);
  assert.deepEqual(await ask("127.0.0.1"), { listening: ["a", "b"] });
  for (const bad of ["null", "{}", "no JSON"]) {
    answer = bad;
    await assert.rejects(ask("127.0.0.1"), bad);
  }
});
