import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { parseConfig } from "#lib/config/parse.ts";
import { PROXY_PAGE, type ProxyPage, type ReportedAnswer } from "#lib/documents/proxy-page.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import type { TargetsReader } from "#lib/documents/targets-reader.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { freePort, soon } from "./conformance/rig.ts";
import { type RunningProxy, runProxy } from "./run.ts";

const CONFIG = parseConfig({ targets: [], proxy: { address: "127.0.0.1", healthPort: 0, drainSeconds: 5 } });

async function page(proxy: RunningProxy, path: string): Promise<string> {
  return (await fetch(`http://127.0.0.1:${proxy.healthPort}${path}`)).text();
}

/** The answers that the page shows, once there are so many. */
async function answersOf(proxy: RunningProxy, count: number): Promise<readonly ReportedAnswer[]> {
  for (;;) {
    const { answers } = JSON.parse(await page(proxy, PROXY_PAGE)) as ProxyPage;
    if (answers.length === count) return answers;
    await pause(10);
  }
}

/** A document of targets that are only asked. It changes when the test calls the result. */
function published(first: readonly PublishedTarget[]) {
  let found = (_targets: readonly PublishedTarget[]): void => {};
  const targetsReader: TargetsReader = {
    start(onFound) {
      found = (targets) => onFound({ revision: JSON.stringify(targets), targets });
      found(first);
      return { stop: async () => {} };
    },
  };
  return { targetsReader, publish: (...targets: readonly PublishedTarget[]) => found(targets) };
}

test("the page shows what a port does with a header; metrics count the rounds", async (t) => {
  // Like nginx without `proxy_protocol`, this server answers a header with 400 (bad request).
  const refusing = createServer((_request, response) => response.writeHead(404).end());
  refusing.listen(0, "127.0.0.1");
  t.after(() => refusing.close());
  await once(refusing, "listening");
  const { port: upstreamPort } = refusing.address() as AddressInfo;
  const { targetsReader, publish } = published([
    {
      name: "edge",
      namespace: "infra",
      upstream: "edge.test",
      upstreamIPs: ["127.0.0.1"],
      ports: [],
      clusterIPs: [],
      ask: [{ port: 80, speaks: "http", name: "shop.example.com", upstreamPort }],
    },
  ]);
  const proxy = await runProxy(CONFIG, { log: silentLogger, targetsReader, interfaceAddresses: ["10.0.0.7"] });
  t.after(() => proxy.stop());
  const [answer] = await soon(answersOf(proxy, 1), "an answer");
  assert.deepEqual(answer, { target: "edge", port: 80, answer: "refuses-header", count: 1 });
  publish();
  // The page rests for a while after it was rendered.
  await soon(answersOf(proxy, 0), "a page without answers");
  assert.equal(await page(proxy, PROXY_PAGE), '{"listening":[],"answers":[]}\n');
});

test("the proxy does not ask its own listeners and front Services", async (t) => {
  const own = await freePort();
  const ask = { port: 443, speaks: "tls", name: "a.example.com" } as const;
  const asked = { upstream: "a.test", ports: [], clusterIPs: [] } as const;
  const { targetsReader } = published([
    {
      name: "a",
      upstream: "127.0.0.1",
      ports: [{ port: 443, listenPort: own, upstreamPort: 1, protocol: "v1" }],
      clusterIPs: ["127.0.0.2"],
    },
    { ...asked, name: "front", namespace: "a", upstreamIPs: ["127.0.0.2"], ask: [{ ...ask, upstreamPort: 443 }] },
    { ...asked, name: "listener", namespace: "b", upstreamIPs: ["127.0.0.1"], ask: [{ ...ask, upstreamPort: own }] },
  ]);
  const proxy = await runProxy(CONFIG, { log: silentLogger, targetsReader, interfaceAddresses: ["::1"] });
  t.after(() => proxy.stop());
  const answers = await soon(answersOf(proxy, 2), "both answers");
  assert.deepEqual(
    answers.map(({ answer }) => answer),
    ["unknown", "unknown"],
  );
  assert.match(await page(proxy, "/metrics"), /^switchback_proxy_connections_total\{target="a"\} 0$/m);
});
