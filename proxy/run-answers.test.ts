import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { parseConfig } from "#lib/config/parse.ts";
import {
  ANSWERS_PATH,
  type HeaderQuestion,
  parseAnswers,
  type ReportedAnswer,
} from "#lib/documents/header-questions.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import type { TargetsReader } from "#lib/documents/targets-reader.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { freePort, soon } from "./conformance/rig.ts";
import { type RunningProxy, runProxy } from "./run.ts";

const CONFIG = parseConfig({ targets: [], proxy: { address: "127.0.0.1", healthPort: 0, drainSeconds: 5 } });

async function page(proxy: RunningProxy, path: string): Promise<string> {
  return (await fetch(`http://127.0.0.1:${proxy.healthPort}${path}`)).text();
}

/** The first answer that the page shows. */
async function answerOf(proxy: RunningProxy): Promise<ReportedAnswer> {
  for (;;) {
    const [answer] = parseAnswers(JSON.parse(await page(proxy, ANSWERS_PATH)));
    if (answer !== undefined) return answer;
    await pause(10);
  }
}

test("the page of answers shows what a port does with a header; metrics count the rounds", async (t) => {
  // Like nginx without `proxy_protocol`, this server answers a header with 400 (bad request).
  const refusing = createServer((_request, response) => response.writeHead(404).end());
  refusing.listen(0, "127.0.0.1");
  t.after(() => refusing.close());
  await once(refusing, "listening");
  const { port: upstreamPort } = refusing.address() as AddressInfo;
  const question: HeaderQuestion = {
    target: "edge",
    port: 80,
    speaks: "http",
    upstream: "edge.test",
    upstreamIPs: ["127.0.0.1"],
    upstreamPort,
    name: "shop.example.com",
    namespace: "infra",
    asker: "10.0.0.7",
  };
  let ask = (_questions: readonly HeaderQuestion[]): void => {};
  const targetsReader: TargetsReader = {
    start(found, asked = () => {}) {
      found({ revision: "first", targets: [] });
      // This question arrives before the proxy has started.
      asked([question]);
      ask = asked;
      return { stop: async () => {} };
    },
  };
  const proxy = await runProxy(CONFIG, { log: silentLogger, targetsReader, interfaceAddresses: ["10.0.0.7"] });
  t.after(() => proxy.stop());
  const { at: _at, ...answer } = await soon(answerOf(proxy), "an answer");
  assert.deepEqual(answer, { target: "edge", port: 80, answer: "refuses-header" });
  assert.match(await page(proxy, "/metrics"), /^switchback_proxy_header_rounds_total\{answer="refuses-header"\} 1$/m);
  ask([]);
  assert.equal(await page(proxy, ANSWERS_PATH), '{"answers":[]}\n');
});

test("the proxy does not ask its own listeners and front Services", async (t) => {
  const own = await freePort();
  const front: PublishedTarget = {
    name: "a",
    upstream: "127.0.0.1",
    ports: [{ port: 443, listenPort: own, upstreamPort: 1, protocol: "v1" }],
    clusterIPs: ["127.0.0.2"],
  };
  const base = { speaks: "tls", upstream: "a.test", name: "a.example.com", namespace: "infra", asker: "::1" } as const;
  const questions: HeaderQuestion[] = [
    { ...base, target: "listener", port: 443, upstreamIPs: ["127.0.0.1"], upstreamPort: own },
    { ...base, target: "front", port: 443, upstreamIPs: ["127.0.0.2"], upstreamPort: 443 },
  ];
  const targetsReader: TargetsReader = {
    start(found, asked = () => {}) {
      found({ revision: "first", targets: [front] });
      asked(questions);
      return { stop: async () => {} };
    },
  };
  const proxy = await runProxy(CONFIG, { log: silentLogger, targetsReader, interfaceAddresses: ["::1"] });
  t.after(() => proxy.stop());
  await soon(answerOf(proxy), "an answer");
  assert.match(await page(proxy, "/metrics"), /^switchback_proxy_header_rounds_total\{answer="unknown"\} 2$/m);
  assert.match(await page(proxy, "/metrics"), /^switchback_proxy_connections_total\{target="a"\} 0$/m);
});
