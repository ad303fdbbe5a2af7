import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, stopTime } from "#test/fakes/stopped-time.ts";
import { nameOf, service, targetsOf } from "#test/fakes/target-table.ts";
import { findTarget } from "./find-target.ts";
import { TargetTable } from "./target-table.ts";

const SERVICES = "/api/v1/services";
/** The delay that combines changes of several Services. */
const SETTLE_MS = 20;
const EDGE = nameOf("edge/lb");

function rig(t: TestContext) {
  const pass = stopTime(t);
  const api = new MemoryKube();
  const discovery = new TargetTable({
    client: api.client,
    config: parseConfig({ targets: [] }),
    log: silentLogger,
  });
  t.after(() => discovery.stop());
  const calls = { changes: 0, definitions: 0, synced: 0, deleted: 0 };
  const count = (call: keyof typeof calls) => () => {
    calls[call] += 1;
  };
  discovery.start(count("changes"), count("synced"));
  discovery.follow(count("definitions"));
  discovery.followDeleted(count("deleted"));
  const set = (key: string, ip: string) => api.set(SERVICES, service(key, { ips: [ip] }) as never);
  const at = (ip: string) => {
    const { target } = findTarget(
      { className: "any", addresses: [ip], admitted: true },
      { held: undefined },
      discovery,
    );
    return typeof target === "string" ? target : target.code;
  };
  return { pass, api, discovery, calls, set, at };
}

test("the Services of the cluster are followed: those that change together cause one report", async (t) => {
  const { pass, api, calls, set, at } = rig(t);
  await pass(SETTLE_MS);
  const before = calls.changes;
  for (const number of [1, 2, 3]) set(`edge/lb${number}`, `203.0.113.${number}`);
  await pass(SETTLE_MS - 10);
  assert.deepEqual([calls.changes - before, at("203.0.113.2")], [0, nameOf("edge/lb2")]);
  await pass(10);
  assert.deepEqual([calls.changes - before, calls.definitions - before], [1, 1]);
  await pass(1_000);
  assert.equal(calls.changes - before, 1, "and no more");
  api.unset(SERVICES, "edge/lb2");
  await pass(SETTLE_MS);
  assert.deepEqual([calls.changes - before, at("203.0.113.2")], [2, "no-service"]);
});

test("a Service that no target needs is known by its key, and resolves nothing again", async (t) => {
  const { pass, api, calls, discovery } = rig(t);
  await pass(SETTLE_MS);
  const before = calls.changes;
  api.set(SERVICES, service("dev/shop", { type: "ClusterIP" }) as never);
  assert.deepEqual([discovery.hasService("dev/shop"), discovery.hasService("dev/blog")], [true, false]);
  api.unset(SERVICES, "dev/shop");
  await pass(SETTLE_MS);
  assert.deepEqual([discovery.hasService("dev/shop"), calls.deleted, calls.changes], [false, 1, before]);
});

test("discovery is not synced before the Services were listed, even if there are none", async (t) => {
  const { api, pass, calls, discovery } = rig(t);
  api.refuse(SERVICES, 403);
  await pass(1_000);
  assert.equal(discovery.state()[0]?.problems.length, 1);
  assert.deepEqual([discovery.state()[0]?.synced, calls.synced], [false, 0]);
  api.refuse(SERVICES, undefined);
  await pass(30_000, 100);
  assert.equal(calls.synced, 1);
});

test("stopping ends the watch, waits for its end and cancels the pending report", async (t) => {
  const { pass, api, discovery, calls, set } = rig(t);
  await pass(SETTLE_MS);
  set("edge/lb", "203.0.113.1");
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

test("an invalid annotation is a problem until it is valid; it leaves the names as they are", () => {
  const { table, set } = targetsOf({ discovery: { protocol: "v1" } }, []);
  const seen = (annotations: Readonly<Record<string, string>>) => {
    set(service("edge/lb", { hostnames: ["a.net"], annotations }));
    const problems = table.state()[0]?.problems.map(({ place, code }) => `${place} ${code}`);
    return [table.found(EDGE)?.ports[0]?.stated, table.mapsAlways(EDGE), problems];
  };
  const problem = "Service edge/lb annotation-invalid";
  assert.deepEqual(seen({ "switchback.dev/proxy-protocol": "v9" }), ["invalid", false, [problem]]);
  assert.deepEqual(seen({ "switchback.dev/map": "alwyas" }), [undefined, true, [problem]]);
  assert.deepEqual(seen({}), [undefined, false, []]);
});
