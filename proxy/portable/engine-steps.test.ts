import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { FakeNetSocket, fakeConnect, fakeServers } from "#test/fakes/fake-net.ts";
import { isSettled, settled } from "#test/fakes/stopped-time.ts";
import type { DialReport, ListenerSpec } from "../engine.ts";
import { makePortableEngine } from "./engine.ts";

const LIMITS = {
  maxConnections: 10,
  maxConnectionsPerSource: 10,
  connectTimeoutMs: 5_000,
  idleTimeoutMs: 0,
  halfClosedMs: 0,
  keepaliveMs: 0,
  firstBytesMs: 50,
  dropGraceMs: 1_000,
};

function specOf(change: Partial<ListenerSpec> = {}): ListenerSpec {
  const named = { name: "web:443", target: "web", address: "127.0.0.1", port: 15_443, declaredPort: 443 };
  return { ...named, protocol: "v1", upstream: { addresses: ["10.0.0.1"], port: 8443 }, ...change };
}

/** An engine whose servers and sockets the test controls. */
function start(t: TestContext, { limits = {}, taken = [] as number[] } = {}) {
  const [servers, upstreams, log] = [fakeServers(t, new Set(taken)), fakeConnect(t), new LineLog()];
  const reports: DialReport[] = [];
  const engine = makePortableEngine({
    limits: { ...LIMITS, ...limits },
    log,
    onDial: (report) => reports.push(report),
  });
  const plan = (...listeners: ListenerSpec[]) => ({ listeners, self: { interfaceAddresses: [], frontEndpoints: [] } });
  const clients: FakeNetSocket[] = [];
  /** A client of the server with this port. */
  const accept = (change: Partial<FakeNetSocket> = {}, port = 15_443): FakeNetSocket => {
    const client = Object.assign(new FakeNetSocket(), change);
    clients.push(client);
    servers.find((server) => server.port === port)?.emit("connection", client);
    return client;
  };
  /** Both sockets of every connection close, as the system does after they were destroyed. */
  const closeAll = () => {
    for (const socket of [...clients, ...upstreams]) if (socket.destroyed) socket.emit("close");
  };
  t.after(async () => {
    const closed = engine.close();
    closeAll();
    await closed;
  });
  const stats = (target = "web") => engine.stats().get(target) ?? assert.fail("no such target");
  const upstream = (index = -1) => upstreams.at(index) ?? assert.fail("nobody was dialled");
  return { engine, servers, upstreams, log, reports, plan, accept, closeAll, stats, upstream };
}

test("a client's header and bytes reach the upstream, and its connection is counted", async (t) => {
  const { engine, plan, accept, upstream, stats, reports, upstreams } = start(t);
  await engine.start(plan(specOf()));
  const client = accept();
  client.say("hello");
  assert.equal((upstream().options as { host: string }).host, "10.0.0.1");
  upstream().emit("connect");
  assert.deepEqual(upstream().calls, ["write PROXY TCP4 192.0.2.7 198.51.100.9 51234 443\r\nhello"]);
  upstream().say("welcome");
  assert.deepEqual(client.calls, ["write welcome"]);
  const { accepted, active, clientBytes, upstreamBytes } = stats();
  assert.deepEqual(
    { accepted, active, clientBytes, upstreamBytes },
    { accepted: 1, active: 1, clientBytes: 5, upstreamBytes: 7 },
  );
  assert.deepEqual(reports, [{ listener: "web:443", connected: true, failures: [] }]);
  accept();
  upstream().emit("connect");
  assert.deepEqual([reports.length, upstreams.length], [1, 2], "what works is reported once");
  for (const socket of [client, upstream(0)]) socket.emit("close");
  assert.deepEqual([stats().active, stats().accepted], [1, 2]);
});

test("a failed dial is reported and refuses the client; the next dial that connects is reported too", async (t) => {
  const { engine, plan, accept, upstream, stats, reports } = start(t);
  await engine.start(plan(specOf()));
  const failures = [{ address: "10.0.0.1", cause: "connection-refused", detail: "connect ECONNREFUSED" }];
  const client = accept();
  upstream().fail("ECONNREFUSED");
  assert.deepEqual([client.calls, stats().refused.upstream], [["reset"], 1]);
  accept();
  upstream().emit("connect");
  assert.deepEqual(reports, [
    { listener: "web:443", connected: false, failures },
    { listener: "web:443", connected: true, failures: [] },
  ]);
});

test("a lack of descriptors refuses the client and is logged, but is no failure of the upstream", async (t) => {
  const { engine, plan, accept, upstream, stats, reports, log } = start(t);
  await engine.start(plan(specOf()));
  const client = accept();
  upstream().fail("EMFILE");
  assert.deepEqual(
    [client.calls, stats().refused["local-limit"], stats().refused.upstream, reports],
    [["reset"], 1, 0, []],
  );
  assert.deepEqual(log.lines[0]?.fields, { cause: "local-limit", target: "web", err: "connect EMFILE" });
});

for (const [limit, limits] of [
  ["limit-total", { maxConnections: 1 }],
  ["limit-source", { maxConnectionsPerSource: 1 }],
] as const) {
  test(`a client over ${limit} is reset, counted and logged; a place that becomes free is used again`, async (t) => {
    const { engine, plan, accept, upstreams, stats, log } = start(t, { limits });
    await engine.start(plan(specOf()));
    const first = accept({ remoteAddress: "::ffff:192.0.2.7" });
    const second = accept();
    second.emit("error", new Error("ECONNRESET"));
    assert.deepEqual([second.calls, upstreams.length, stats().refused[limit]], [["reset"], 1, 1]);
    assert.deepEqual(log.lines[0]?.fields, { cause: limit, target: "web", source: "192.0.2.7" });
    first.emit("close");
    accept();
    assert.deepEqual([upstreams.length, stats().accepted, stats().active], [2, 2, 1]);
  });
}

for (const change of [{ remoteAddress: undefined }, { remotePort: undefined }, { localAddress: undefined }]) {
  test(`a client without its ${Object.keys(change)} has already left, and is not counted`, async (t) => {
    const { engine, plan, accept, upstreams, stats } = start(t);
    await engine.start(plan(specOf()));
    assert.deepEqual([accept(change).calls, upstreams.length, stats().accepted], [["destroy"], 0, 0]);
  });
}

test("without a header the client's bytes are relayed alone, unless they are a forbidden header", async (t) => {
  const { engine, plan, accept, upstream, stats, log } = start(t);
  await engine.start(
    plan(
      specOf({ protocol: "none" }),
      specOf({ name: "b:443", target: "b", port: 1, protocol: "none", refusesClientHeaders: true }),
    ),
  );
  accept().say("PROXY TCP4");
  upstream().emit("connect");
  assert.deepEqual(upstream().calls, ["write PROXY TCP4"]);
  const refused = accept({}, 1);
  refused.say("PROXY TCP4");
  assert.deepEqual(
    [refused.calls, stats("b").refused["client-header"], stats().refused["client-header"]],
    [["reset"], 1, 0],
  );
  assert.deepEqual(log.lines.at(-1)?.fields, { cause: "client-header", target: "b", source: "192.0.2.7" });
});

test("if a port is in use, start fails and unbinds all; update reports it and retries", async (t) => {
  const failing = start(t, { taken: [2] });
  await assert.rejects(failing.engine.start(failing.plan(specOf(), specOf({ name: "b:443", target: "b", port: 2 }))), {
    code: "listen-failed",
  });
  assert.deepEqual(
    failing.servers.map(({ port }) => port),
    [undefined, undefined],
  );
});

test("an update binds new listeners, unbinds removed ones, and retries those that could not be bound", async (t) => {
  const taken = [2];
  const { engine, plan, servers, log, stats } = start(t, { taken });
  await engine.start(plan(specOf()));
  const second = specOf({ name: "b:443", target: "b", port: 2 });
  await engine.update(plan(specOf({ declaredPort: 8443 }), second));
  assert.deepEqual(
    engine.listeners().map(({ name, bound, error }) => [name, bound, error]),
    [
      ["web:443", true, undefined],
      ["b:443", false, "listen EADDRINUSE"],
    ],
  );
  assert.deepEqual(
    log.lines.map(({ level, message }) => [level, message]),
    [["error", "listener not bound"]],
  );
  await engine.update(plan(specOf(), second));
  assert.equal(servers.length, 3, "one server for what is bound, another for each attempt");
  await engine.update(plan(specOf({ port: 3 })));
  assert.deepEqual(
    engine.listeners().map(({ name, port }) => [name, port]),
    [["web:443", 3]],
  );
  assert.deepEqual([engine.stats().has("b"), stats().accepted], [false, 0]);
});

test("the counters of a removed target stay as long as it has a connection", async (t) => {
  const { engine, plan, accept, stats } = start(t);
  await engine.start(plan(specOf()));
  const client = accept();
  await engine.update(plan());
  assert.equal(stats().active, 1);
  client.emit("close");
  await engine.update(plan());
  assert.equal(engine.stats().has("web"), false);
});

test("an error of a bound listener counts as a lack of descriptors", async (t) => {
  const { engine, plan, servers, log } = start(t);
  await engine.start(plan(specOf()));
  servers[0]?.emit("error", new Error("accept EMFILE"));
  assert.deepEqual(log.lines[0]?.fields, { cause: "local-limit", listener: "web:443", err: "accept EMFILE" });
});

test("a drain stops accepting and waits for connections; the rest is reset after the grace period", async (t) => {
  const { engine, plan, servers, accept, stats, closeAll } = start(t);
  await engine.start(plan(specOf()));
  const [first, second] = [accept(), accept()];
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const drained = engine.drain(5_000);
  await settled();
  assert.deepEqual([servers[0]?.port, await isSettled(drained)], [undefined, false]);
  first.emit("close");
  t.mock.timers.tick(4_999);
  assert.deepEqual(second.calls, []);
  t.mock.timers.tick(1);
  assert.deepEqual([second.calls, await isSettled(drained)], [["reset"], false]);
  closeAll();
  assert.deepEqual([await drained, stats().cut.drain], [{ finished: 1, reset: 1 }, 1]);
  await engine.update(plan(specOf()));
  assert.equal(servers.length, 1, "nothing is bound any more");
});

test("a drain without connections ends at once", async (t) => {
  const { engine, plan } = start(t);
  await engine.start(plan(specOf()));
  assert.deepEqual(await engine.drain(60_000), { finished: 0, reset: 0 });
});
