import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, settled, stopTime } from "#test/fakes/stopped-time.ts";
import type { RoutingHints } from "../sources/types.ts";
import { TargetDiscovery } from "./discovery.ts";
import { foundName } from "./service-view.ts";

const BALANCERS = "/api/v1/services";
const EDGE = foundName("edge", "lb");
/** The delay that combines changes of several Services. */
const SETTLE_MS = 20;

function service(namespace: string, name: string, ip: string, annotations: Record<string, string> = {}) {
  return {
    metadata: { namespace, name, annotations },
    spec: { type: "LoadBalancer", clusterIPs: ["10.96.0.7"], ports: [{ port: 443 }] },
    status: { loadBalancer: { ingress: [{ ip }] } },
  };
}

const hints = (ip: string) => ({ className: "any", addresses: [ip], admitted: true });
const NO_ADDRESS: RoutingHints = { className: "nginx", addresses: [], admitted: false };
const upstreamConfig = (upstream: object) => parseConfig({ targets: [{ name: "only", upstream }] });

function rig(t: TestContext, config: Config = parseConfig({ targets: [] })) {
  const pass = stopTime(t);
  const api = new MemoryKube();
  const discovery = new TargetDiscovery({ client: api.client, config, log: silentLogger });
  const calls = { changes: 0, definitions: 0, synced: 0 };
  const start = () =>
    discovery.start(
      () => {
        calls.changes += 1;
      },
      () => {
        calls.synced += 1;
      },
    );
  const follow = () =>
    discovery.follow(() => {
      calls.definitions += 1;
    });
  t.after(() => discovery.stop());
  const codeOf = (of: RoutingHints) => {
    const target = discovery.resolve(of);
    return typeof target === "string" ? target : target.code;
  };
  return { pass, api, discovery, calls, start, follow, codeOf };
}

test("Services that change together cause one report, and a later change causes another", async (t) => {
  const { pass, api, calls, start, follow } = rig(t);
  start();
  follow();
  await settled();
  for (const number of [1, 2, 3]) api.set(BALANCERS, service("edge", `lb${number}`, `203.0.113.${number}`));
  await pass(SETTLE_MS - 10);
  assert.deepEqual([calls.changes, calls.definitions], [0, 0]);
  await pass(10);
  assert.deepEqual([calls.changes, calls.definitions], [1, 1]);
  await pass(1_000);
  assert.deepEqual([calls.changes, calls.definitions], [1, 1], "and no more");
  api.unset(BALANCERS, "edge/lb2");
  await pass(SETTLE_MS);
  assert.deepEqual([calls.changes, calls.definitions], [2, 2]);
});

test("a target without classes outside the cluster is assumed to exist, and is not watched", async (t) => {
  const { api, discovery, calls, start, codeOf } = rig(t, upstreamConfig({ host: "lb.example.net" }));
  assert.deepEqual(
    discovery.state().map(({ name, synced }) => [name, synced]),
    [["services", false]],
  );
  start();
  await settled();
  assert.deepEqual([calls.synced, api.watched], [1, [BALANCERS]]);
  assert.equal(codeOf(NO_ADDRESS), "only");
  assert.equal(discovery.configured().length, 1);
});

test("an invalid annotation of a Service that was never valid is a problem until the Service is deleted", async (t) => {
  const { api, discovery, start, codeOf } = rig(t);
  start();
  await settled();
  api.set(BALANCERS, service("edge", "lb", "203.0.113.1", { "switchback.dev/proxy-protocol": "v9" }));
  assert.equal(discovery.state()[0]?.problems.length, 1);
  assert.equal(discovery.found(EDGE), undefined);
  assert.notEqual(codeOf(hints("203.0.113.1")), EDGE);
  api.unset(BALANCERS, "edge/lb");
  assert.deepEqual(discovery.state()[0]?.problems, []);
});

test("stopping ends the watch, waits for its end and cancels the pending report", async (t) => {
  const { pass, api, discovery, calls, start } = rig(t, parseConfig({}));
  start();
  await pass(SETTLE_MS);
  api.set(BALANCERS, service("edge", "lb", "203.0.113.1"));
  const before = calls.changes;
  const linger = Promise.withResolvers<void>();
  api.lingering = linger.promise;
  const stopped = discovery.stop();
  assert.equal(await isSettled(stopped), false);
  assert.equal(api.watched.length, 1);
  linger.resolve();
  await stopped;
  assert.deepEqual(api.watched, []);
  await pass(SETTLE_MS * 5);
  assert.equal(calls.changes, before);
});
