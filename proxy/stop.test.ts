import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { PublishedTarget, PublishedTargets } from "#lib/documents/targets-format.ts";
import type { TargetsReader } from "#lib/documents/targets-reader.ts";
import { FakeClock, LineLog } from "#test/fakes/clock.ts";
import { FakeEngine } from "#test/fakes/fake-engine.ts";
import { until } from "#test/fakes/kube-api.ts";
import { isSettled, settled } from "#test/fakes/stopped-time.ts";
import type { EngineOptions } from "./engine.ts";
import { type RunningProxy, runProxy } from "./run.ts";

const REBIND_MS = 5_000;

function target(name: string, upstream = "ingress.test"): PublishedTarget {
  const ports = [{ port: 443, listenPort: 20_443, upstreamPort: 443, protocol: "v1" as const }];
  return { name, upstream, ports, clusterIPs: [] };
}

/** A proxy whose engine, feed, names and clock the test controls. */
function rig(t: TestContext) {
  const engine = new FakeEngine();
  const clock = new FakeClock();
  const log = new LineLog();
  const feedEnd = Promise.withResolvers<void>();
  const seen = { feedStops: 0, lookups: 0, addresses: ["192.0.2.1"], tell: (_: PublishedTargets) => {} };
  const feed: TargetsReader = {
    start(found) {
      seen.tell = found;
      found({ revision: "first", targets: [target("a")] });
      return {
        stop: () => {
          seen.feedStops += 1;
          return feedEnd.promise;
        },
      };
    },
  };
  const lookup = async () => {
    seen.lookups += 1;
    return seen.addresses;
  };
  const config = parseConfig({ proxy: { address: "127.0.0.1", healthPort: 0, drainSeconds: 7 } });
  const makeEngine = (options: EngineOptions) => {
    engine.options = options;
    return engine;
  };
  const begun: RunningProxy[] = [];
  const begin = async () => {
    const proxy = await runProxy(config, { log, targetsReader: feed, lookup, clock, makeEngine });
    begun.push(proxy);
    return proxy;
  };
  const tell = async (...targets: PublishedTarget[]) => {
    seen.tell({ revision: "next", targets });
    await settled();
  };
  t.after(async () => {
    feedEnd.resolve();
    engine.drained.resolve({ finished: 0, reset: 0 });
    await Promise.all(begun.map((proxy) => proxy.stop()));
  });
  return { engine, clock, log, feedEnd, seen, begin, tell };
}

test("stop drains at once, whatever the feed does, and then looks up no more names", async (t) => {
  const { engine, clock, feedEnd, seen, begin, log } = rig(t);
  const proxy = await begin();
  const stopped = proxy.stop();
  assert.equal(proxy.stop(), stopped, "once");
  assert.equal(await isSettled(stopped), false);
  assert.deepEqual([seen.feedStops, engine.drains], [1, [7_000]]);
  const healthz = async () => (await fetch(`http://127.0.0.1:${proxy.healthPort}/healthz`)).status;
  assert.equal(await healthz(), 200, "alive while it drains");
  const before = seen.lookups;
  await clock.pass(3_600_000);
  assert.ok(seen.lookups > before, "connections that are open may still be dialled");
  engine.drained.resolve({ finished: 2, reset: 1 });
  assert.equal(await isSettled(stopped), false, "the feed has not ended");
  feedEnd.resolve();
  await stopped;
  assert.deepEqual(log.lines.at(-1), { level: "info", fields: { finished: 2, reset: 1 }, message: "drained" });
  assert.equal(clock.pending, 0);
  await assert.rejects(healthz());
});

test("after stop, neither new targets nor new addresses reach the engine", async (t) => {
  const { engine, clock, seen, begin, tell } = rig(t);
  const proxy = await begin();
  const plans = engine.plans.length;
  void proxy.stop();
  await tell(target("b"));
  seen.addresses = ["192.0.2.2"];
  await clock.pass(3_600_000);
  assert.equal(engine.plans.length, plans);
});

test("new targets and new addresses reach the engine", async (t) => {
  const { engine, clock, seen, begin, tell, log } = rig(t);
  await begin();
  assert.equal(engine.names, "a:443");
  await tell(target("a"), target("b", "other.test"));
  assert.equal(engine.names, "a:443,b:443");
  assert.ok(log.lines.some(({ fields }) => "revision" in fields && fields.revision === "next"));
  seen.addresses = ["192.0.2.2"];
  await clock.pass(3_600_000);
  assert.deepEqual(
    engine.plans.at(-1)?.listeners.map(({ upstream }) => upstream.addresses.join()),
    ["192.0.2.2", "192.0.2.2"],
  );
});

test("an unbound listener is retried every five seconds until it is bound or the proxy stops", async (t) => {
  const { engine, begin, tell } = rig(t);
  const proxy = await begin();
  engine.unbound.add("b:443");
  await tell(target("a"));
  t.mock.timers.enable({ apis: ["setTimeout"] });
  await tell(target("a"), target("b"));
  let plans = engine.plans.length;
  const triesWithin = async (ms: number) => {
    t.mock.timers.tick(ms);
    await settled();
    const tries = engine.plans.length - plans;
    plans = engine.plans.length;
    return tries;
  };
  assert.equal(await triesWithin(REBIND_MS - 1), 0);
  assert.equal(await triesWithin(1), 1);
  assert.equal(await triesWithin(REBIND_MS), 1);
  engine.unbound.clear();
  assert.equal(await triesWithin(REBIND_MS), 1);
  assert.equal(await triesWithin(REBIND_MS * 3), 0);
  engine.unbound.add("b:443");
  await tell(target("a"), target("b"));
  await tell(target("b"));
  plans = engine.plans.length;
  assert.equal(await triesWithin(REBIND_MS), 1, "one timer, even after several changes");
  void proxy.stop();
  assert.equal(await triesWithin(REBIND_MS * 3), 0);
});

test("the proxy is ready once all listeners are bound, and lists each target once its listeners are", async (t) => {
  const { engine, begin, tell } = rig(t);
  const proxy = await begin();
  const get = async (path: string) => await fetch(`http://127.0.0.1:${proxy.healthPort}${path}`);
  assert.deepEqual(
    [(await get("/readyz")).status, await (await get("/targets")).json()],
    [200, { listening: ["a"], answers: [] }],
  );
  engine.unbound.add("b:443");
  await tell(target("b"), target("a"));
  assert.deepEqual(
    [(await get("/readyz")).status, await (await get("/targets")).json()],
    [503, { listening: ["a"], answers: [] }],
  );
  engine.unbound.clear();
  // The page rests for a while after it was rendered.
  const listed = async () => (await (await get("/targets")).text()).includes('["a","b"]');
  await until(listed, "the page to list both targets");
});

test("an engine that cannot start leaves nothing running", async (t) => {
  const { engine, clock, feedEnd, seen, begin } = rig(t);
  engine.startFails = new Error("listen-failed");
  const starting = begin();
  starting.catch(() => {});
  await new Promise<void>((resolve) => {
    const look = () => (seen.feedStops > 0 ? resolve() : setImmediate(look));
    look();
  });
  assert.equal(await isSettled(starting), false, "it waits for the feed to end");
  feedEnd.resolve();
  await assert.rejects(starting, /listen-failed/);
  assert.equal(clock.pending, 0);
});

test("an engine that dies is reported", async (t) => {
  const { engine, begin } = rig(t);
  const proxy = await begin();
  engine.options?.onBroken?.(new Error("a worker is gone"));
  assert.equal((await proxy.broken).message, "a worker is gone");
});
