import assert from "node:assert/strict";
import { Server, Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { Rig, soon } from "../conformance/rig.ts";
import { takeHeader } from "../conformance/streams.ts";
import { makePortableEngine } from "./engine.ts";

// Tests what the conformance suite cannot observe: which work has ended when a promise of the engine resolves.

/** An engine with relayed connections. */
async function relaying(t: TestContext, count: number) {
  const rig = await Rig.start(makePortableEngine);
  t.after(() => rig[Symbol.asyncDispose]());
  for (let number = 0; number < count; number += 1) {
    await rig.connect();
    await takeHeader(await rig.upstream.next());
  }
  assert.equal(rig.stats().active, count);
  return rig;
}

test("close resolves once every connection is over, for each of its callers", async (t) => {
  const rig = await relaying(t, 3);
  const active: number[] = [];
  const close = async () => {
    await rig.engine.close();
    active.push(rig.stats().active);
  };
  await soon(Promise.all([close(), close()]), "both to resolve");
  assert.deepEqual(active, [0, 0]);
  assert.equal(rig.stats().cut.drain, 3);
});

test("a drain resolves once every connection is over, and its close with it", async (t) => {
  const rig = await relaying(t, 2);
  const drained = rig.engine.drain(60_000);
  await soon(rig.engine.close(), "the close");
  assert.equal(rig.stats().active, 0);
  await soon(drained, "the drain");
});

test("a drain waits for the running update, and nothing is bound after it", async (t) => {
  const rig = await relaying(t, 0);
  const updated = rig.engine.update(rig.relaySpec({}, rig.spec({ name: "late:443" })));
  await soon(rig.engine.drain(0), "the drain");
  await updated;
  await rig.engine.update(rig.relaySpec());
  assert.deepEqual(
    rig.engine.listeners().map(({ bound }) => bound),
    [false, false],
  );
});

test("a client that left before it was accepted is not counted", async (t) => {
  const { mock } = t.mock.method(Server.prototype, "listen");
  const rig = await relaying(t, 0);
  // Node knows no address of such a client.
  const left = new Socket();
  for (const { this: server } of mock.calls) (server as Server).emit("connection", left);
  assert.deepEqual([left.destroyed, rig.stats().accepted], [true, 0]);
});

test("the counters of a removed target stay as long as it has a connection", async (t) => {
  const rig = await relaying(t, 0);
  await rig.connect();
  const upstream = await rig.upstream.next();
  await takeHeader(upstream);
  const none = { listeners: [], self: { interfaceAddresses: [], frontEndpoints: [] } };
  await rig.engine.update(none);
  assert.equal(rig.stats().active, 1);
  upstream.resetAndDestroy();
  await rig.idle();
  await rig.engine.update(none);
  assert.equal(rig.engine.stats().size, 0);
});

test("a close ends the sweeps for idle connections", async (t) => {
  const cleared = t.mock.method(globalThis, "clearInterval");
  const set = t.mock.method(globalThis, "setInterval");
  const rig = await relaying(t, 0);
  const sweep = set.mock.calls[0]?.result;
  await rig.engine.close();
  assert.ok(sweep !== undefined && cleared.mock.calls.some(({ arguments: [timer] }) => timer === sweep));
});

test("connections of a removed listener are cut after the grace period, and those of others continue", async (t) => {
  const rig = await Rig.start(makePortableEngine, { limits: { dropGraceMs: 1_000 } });
  t.after(() => rig[Symbol.asyncDispose]());
  const other = rig.spec({ name: "other:443" });
  await rig.engine.update(rig.relaySpec({}, other));
  const dropped = await rig.connect();
  await takeHeader(await rig.upstream.next());
  const staying = await rig.connect({ port: rig.port("other:443") });
  await takeHeader(await rig.upstream.next());
  t.mock.timers.enable({ apis: ["setTimeout"] });
  await rig.engine.update({ listeners: [other], self: { interfaceAddresses: [], frontEndpoints: [] } });
  const closed = new Promise<void>((resolve) => dropped.once("close", resolve).resume());
  t.mock.timers.tick(999);
  await new Promise(setImmediate);
  assert.equal(rig.stats().active, 2);
  t.mock.timers.tick(1);
  await closed;
  assert.deepEqual([rig.stats().active, rig.stats().cut.drain, staying.destroyed], [1, 1, false]);
});

test("a listener that is added again within the grace period keeps its connections", async (t) => {
  const rig = await Rig.start(makePortableEngine, { limits: { dropGraceMs: 1_000 } });
  t.after(() => rig[Symbol.asyncDispose]());
  const client = await rig.connect();
  await takeHeader(await rig.upstream.next());
  t.mock.timers.enable({ apis: ["setTimeout"] });
  await rig.engine.update({ listeners: [], self: { interfaceAddresses: [], frontEndpoints: [] } });
  await rig.engine.update(rig.relaySpec());
  t.mock.timers.tick(1_000);
  await new Promise(setImmediate);
  assert.deepEqual([rig.stats().active, client.destroyed], [1, false]);
});
