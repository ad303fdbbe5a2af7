import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { type ReportedAnswer, readProxyPage } from "#lib/documents/proxy-page.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { mockSteadyTime, stopTime } from "#test/fakes/stopped-time.ts";
import { HeaderAnswers } from "./expected-headers/header-answers.ts";
import { ProxyReadiness } from "./proxy-readiness.ts";

const SLICES = "/apis/discovery.k8s.io/v1/namespaces/switchback-system/endpointslices";
/** Interval at which the proxies are asked while a target waits. */
const POLL_MS = 500;
const ANSWER = { target: "a", port: 443, answer: "optional", count: 1 } as const;

/** Ready proxies, and the targets that each reports to listen on. A proxy without any does not answer. */
async function rig(t: TestContext, proxies: readonly string[], unready: readonly string[] = []) {
  const log = new LineLog();
  /** `gate`: every answer waits for it. `answers`: those on each page. */
  const state = {
    now: 0,
    changes: 0,
    answered: 0,
    gate: Promise.resolve(),
    answers: [] as readonly ReportedAnswer[],
  };
  const pass = stopTime(t, POLL_MS);
  mockSteadyTime(t, () => state.now);
  const kube = new MemoryKube();
  const endpoints = [...proxies, ...unready].map((address) => {
    return { addresses: [address], conditions: { ready: proxies.includes(address) } };
  });
  const labels = { "kubernetes.io/service-name": "switchback-proxy" };
  // An endpoint may be in two slices for a moment.
  for (const name of ["slice", "moved"]) kube.set(SLICES, { metadata: { name, labels }, endpoints });
  const bound = new Map<string, readonly string[]>();
  const asked: string[] = [];
  const answers = new HeaderAnswers();
  const listening = new ProxyReadiness(
    {
      client: kube.client,
      config: parseConfig({}),
      log,
      askProxy: async (address) => {
        asked.push(address);
        await state.gate;
        const targets = bound.get(address);
        if (targets === undefined) throw new Error("connection refused");
        return { listening: targets, answers: state.answers };
      },
      headers: {
        answers,
        changed: () => {
          state.answered += 1;
        },
      },
    },
    () => {
      state.changes += 1;
    },
  );
  t.after(() => listening.stop());
  await pass(0);
  assert.ok(listening.watch.state.synced);
  state.changes = 0;
  return { listening, bound, asked, state, answers, log, pass };
}

test("a target is ready once every ready proxy listens; an unready proxy is not asked", async (t) => {
  const { listening, bound, asked, state, pass } = await rig(t, ["10.0.0.1", "10.0.0.2"], ["10.0.0.3"]);
  bound.set("10.0.0.1", ["a"]).set("10.0.0.2", []);
  listening.expect(["a"]);
  await pass(2 * POLL_MS);
  assert.deepEqual([listening.has("a"), state.changes], [false, 0]);
  assert.deepEqual(new Set(asked), new Set(["10.0.0.1", "10.0.0.2"]));
  bound.set("10.0.0.2", ["a"]);
  await pass(POLL_MS);
  assert.deepEqual([listening.has("a"), state.changes], [true, 1]);
  asked.length = 0;
  await pass(10_000);
  assert.equal(asked.length, 4, "nothing waits");
});

test("a target waits at most 15 s for a proxy, from when it was first expected; that is logged once", async (t) => {
  const { listening, bound, state, log, pass } = await rig(t, ["10.0.0.1", "10.0.0.2"]);
  bound.set("10.0.0.1", []);
  listening.expect(["a"]);
  state.now = 10_000;
  listening.expect(["a", "b"]);
  state.now = 14_999;
  await pass(POLL_MS);
  assert.equal(listening.has("a"), false);
  state.now = 15_000;
  await pass(POLL_MS);
  assert.deepEqual([listening.has("a"), listening.has("b"), state.changes], [true, false, 1]);
  const warned = log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields);
  assert.deepEqual(warned, [{ code: "proxy-not-listening", target: "a" }]);
  listening.expect(["a"]);
  state.now = 40_000;
  listening.expect(["a", "b"]);
  await pass(POLL_MS);
  assert.equal(listening.has("b"), false, "it waits again");
});

test("over HTTP, only a well-formed page of a proxy is accepted, and only its well-formed entries", async (t) => {
  let answer = "";
  const server = createServer((request, response) => {
    response.statusCode = request.url === "/targets" ? 200 : 404;
    response.end(answer);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const ask = (address: string) => readProxyPage(address, (server.address() as AddressInfo).port);
  const odd = [null, "a", { ...ANSWER, answer: "yes" }, { ...ANSWER, port: "443" }, { ...ANSWER, count: {} }];
  answer = JSON.stringify({ listening: ["a", 7, "b"], answers: [...odd, ANSWER] });
  assert.deepEqual(await ask("127.0.0.1"), { listening: ["a", "b"], answers: [ANSWER] });
  answer = JSON.stringify({ listening: new Array(30_000).fill("a"), answers: new Array(10_000).fill(ANSWER) });
  const { listening, answers } = await ask("127.0.0.1");
  assert.deepEqual([listening.length, answers.length], [2_000, 2_000]);
  for (const bad of ["null", "{}", "no JSON", JSON.stringify({ listening: "a".repeat(1_000_001) })]) {
    answer = bad;
    await assert.rejects(ask("127.0.0.1"), bad.slice(0, 20));
  }
});

test("answers are read every half second until each port has one, then every 5 s; a change is reported", async (t) => {
  const { listening, bound, asked, state, answers, pass } = await rig(t, ["10.0.0.1", "10.0.0.2"]);
  bound.set("10.0.0.1", []);
  const ask = [{ port: 443, speaks: "tls", name: "a.example.com", upstreamPort: 443 } as const];
  answers.learn([{ name: "a", upstream: "a", ports: [], clusterIPs: [], ask }]);
  listening.expect([]);
  await pass(2 * POLL_MS);
  assert.deepEqual([asked.length, state.answered], [4, 0]);
  state.answers = [ANSWER];
  await pass(POLL_MS);
  assert.deepEqual([asked.length, state.answered, answers.answerOf("a", 443)], [6, 1, "optional"]);
  await pass(10_000);
  assert.deepEqual([asked.length, state.answered], [10, 1]);
});
