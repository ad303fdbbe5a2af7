import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { after, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Listener } from "#lib/documents/listeners.ts";
import type { PublishedTarget, PublishedTargets } from "#lib/documents/targets-format.ts";
import type { TargetsReader } from "#lib/documents/targets-reader.ts";
import { hasCode } from "#lib/errors/errors.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { FakeClock, LineLog } from "#test/fakes/clock.ts";
import { chooseEngine } from "./choose-engine.ts";
import { freePort, soon, Upstream, until } from "./conformance/rig.ts";
import { endOf, take, takeHeader } from "./conformance/streams.ts";
import type { EngineLimits, MakeEngine } from "./engine.ts";
import { type ProxyDeps, type RunningProxy, runProxy } from "./run.ts";

const NXDOMAIN = Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" });

function configOf(proxy: object = {}, targets: object[] = [{ name: "web", upstream: { host: "127.0.0.1" } }]): Config {
  return parseConfig({
    targets: targets.map((target, index) => ({ classes: [`class-${index}`], ...target })),
    proxy: { address: "127.0.0.1", healthPort: 0, drainSeconds: 5, ...proxy },
  });
}

function listener(upstreamPort: number, change: Partial<Listener> = {}): Listener {
  return { target: "web", port: 443, listenPort: 0, upstream: "127.0.0.1", upstreamPort, protocol: "v1", ...change };
}

async function start(
  listeners: readonly Listener[],
  deps: Partial<ProxyDeps> = {},
  config = configOf(),
): Promise<RunningProxy> {
  const proxy = await runProxy(config, { log: silentLogger, listeners, ...deps });
  started.push(proxy);
  return proxy;
}

/** A proxy that a failed test did not stop would keep this test file running. */
const started: RunningProxy[] = [];
after(async () => {
  for (const proxy of started) await proxy.stop();
});

function dial(proxy: RunningProxy, index = 0): Socket {
  const socket = connect({ port: proxy.ports[index] ?? 0, host: "127.0.0.1", allowHalfOpen: true });
  return socket.on("error", () => {});
}

async function get(proxy: RunningProxy, path: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`http://127.0.0.1:${proxy.healthPort}${path}`);
  return { status: response.status, text: await response.text() };
}

test("relays with the front Service's port in the header, and reports it", async () => {
  await using upstream = await Upstream.listen();
  const { makeEngine, nextReport } = await observedEngine();
  const proxy = await start([listener(upstream.port)], { makeEngine });
  const reported = nextReport();
  const client = dial(proxy);
  client.write("hello");
  const arrived = await upstream.next();
  assert.equal((await takeHeader(arrived)).endpoints?.destination.port, 443);
  assert.equal((await take(arrived, 5)).toString(), "hello");
  assert.deepEqual(await get(proxy, "/healthz"), { status: 200, text: "ok\n" });
  await soon(reported, "the report of the dial");
  const ready = await get(proxy, "/readyz");
  assert.equal(ready.status, 200);
  assert.match(ready.text, /^\[i\] upstream web:443: ok since/m);
  assert.match((await get(proxy, "/metrics")).text, /^switchback_proxy_connections_total\{target="web"\} 1$/m);
  assert.equal((await get(proxy, "/other")).status, 404);
  client.destroy();
  arrived.destroy();
  await proxy.stop();
});

test("derives its listeners from the relayed targets of the config", async () => {
  const config = configOf({}, [
    {
      name: "direct",
      upstream: { host: "127.0.0.1" },
      clusterIPs: ["127.0.0.1"],
      ports: [{ port: 80, protocol: "none" }],
    },
    { name: "web", upstream: { host: "127.0.0.1" }, ports: [{ port: 443 }] },
  ]);
  const proxy = await runProxy(config, { log: silentLogger });
  assert.deepEqual(
    proxy.listeners().map(({ name, bound }) => [name, bound]),
    [["web:443", true]],
  );
  await proxy.stop();
});

test("runs and is ready with nothing to relay", async () => {
  const log = new LineLog();
  const proxy = await start([], { log });
  assert.equal((await get(proxy, "/readyz")).status, 200);
  assert.ok(log.messages.some((message) => message.includes("nothing to relay")));
  await proxy.stop();
});

test("is ready without an upstream address, reports the cause, and serves once the name resolves", async () => {
  await using upstream = await Upstream.listen();
  const clock = new FakeClock();
  let known = false;
  const lookup = async () => {
    if (known) return ["127.0.0.1"];
    throw NXDOMAIN;
  };
  const proxy = await start([listener(upstream.port, { upstream: "ingress.test" })], { lookup, clock });
  const ready = await get(proxy, "/readyz");
  assert.equal(ready.status, 200);
  assert.match(ready.text, /^\[i\] upstream web:443: failing \(dns-nxdomain: .*ingress\.test: no address$/m);
  assert.equal((await endOf(dial(proxy))).how, "ECONNRESET");
  known = true;
  await clock.pass(60_000);
  const arrived = upstream.next();
  const client = await dialUntil(arrived, proxy);
  await takeHeader(await arrived);
  client.resetAndDestroy();
  await proxy.stop();
});

/** The engine's threads get new addresses a little later than this thread, and reset their clients until then. */
async function dialUntil(arrived: Promise<Socket>, proxy: RunningProxy): Promise<Socket> {
  for (;;) {
    const client = dial(proxy);
    client.write("hello");
    if (await Promise.race([arrived.then(() => true), endOf(client).then(() => false)])) return client;
  }
}

test("an upstream's outage leaves the proxy ready and other targets served, and is logged once", async () => {
  await using upstream = await Upstream.listen();
  const log = new LineLog();
  const { makeEngine, nextReport } = await observedEngine();
  const proxy = await start([listener(upstream.port), listener(1, { target: "broken" })], { log, makeEngine });
  const before = log.lines.length;
  for (let times = 0; times < 5; times += 1) {
    const reported = nextReport();
    assert.equal((await endOf(dial(proxy, 1))).how, "ECONNRESET");
    await soon(reported, "the report of the dial");
  }
  assert.deepEqual(log.messages.slice(before), ["upstream cannot be reached: its clients are reset"]);
  const ready = await get(proxy, "/readyz");
  assert.equal(ready.status, 200);
  assert.match(ready.text, /upstream broken:443: failing \(connection-refused/);
  const client = dial(proxy);
  client.write("hello");
  await takeHeader(await upstream.next());
  client.resetAndDestroy();
  await proxy.stop();
});

test("does not relay to its own front Service, resolved by name or configured", async () => {
  await using upstream = await Upstream.listen();
  const byName = configOf({}, [
    { name: "web", upstream: { service: { namespace: "a", name: "b" } }, ports: [{ port: upstream.port }] },
  ]);
  const given = configOf({}, [
    { name: "web", upstream: { host: "127.0.0.1" }, ports: [{ port: upstream.port }], clusterIPs: ["127.0.0.1"] },
  ]);
  for (const config of [byName, given]) {
    const lookup = async () => ["127.0.0.1"];
    const { makeEngine, nextReport } = await observedEngine();
    const proxy = await start([listener(upstream.port)], { lookup, makeEngine }, config);
    const reported = nextReport();
    assert.equal((await endOf(dial(proxy))).how, "ECONNRESET");
    await soon(reported, "the report of the dial");
    assert.match((await get(proxy, "/readyz")).text, /failing \(self: /);
    await proxy.stop();
  }
  assert.equal(upstream.sockets.length, 0);
});

test("throws listen-failed and leaves nothing running if a port is in use", async () => {
  await using blocker = await Upstream.listen();
  const healthPort = await freePort();
  const starting = start(
    [listener(1), listener(1, { target: "second", listenPort: blocker.port })],
    {},
    configOf({ healthPort }),
  );
  await assert.rejects(starting, (error) => hasCode(error, "listen-failed") && error.message.includes("second:443"));
  await assert.rejects(fetch(`http://127.0.0.1:${healthPort}/healthz`));
});

/** Waits until a port refuses connections: the engine's threads close it a little after a stop or a removal. */
async function refusal(port: number): Promise<string | undefined> {
  let code: string | undefined;
  await until(async () => {
    const client = connect({ port, host: "127.0.0.1" }).on("error", () => {});
    const connected = once(client, "connect").then(
      () => undefined,
      (error: NodeJS.ErrnoException) => error.code,
    );
    code = await soon(connected, "an answer to a dial");
    // Closes a connection that was still accepted.
    client.resetAndDestroy();
    return code !== undefined && code !== "ECONNRESET";
  }, "a refused connection");
  return code;
}

test("stop fails readiness at once, lets a connection finish and closes everything", async () => {
  await using upstream = await Upstream.listen();
  const proxy = await start([listener(upstream.port)]);
  const client = dial(proxy);
  client.write("question");
  const arrived = await upstream.next();
  await takeHeader(arrived);
  const stopped = Promise.all([proxy.stop(), proxy.stop()]);
  const ready = await get(proxy, "/readyz");
  assert.equal(ready.status, 503);
  assert.match(ready.text, /^\[-\] stopping$/m);
  assert.equal((await get(proxy, "/healthz")).status, 200);
  assert.equal(await refusal(proxy.ports[0] ?? 0), "ECONNREFUSED");
  arrived.end("answer");
  client.end();
  assert.deepEqual(await endOf(client), { how: "FIN", bytes: Buffer.from("answer") });
  await endOf(arrived);
  await stopped;
  await assert.rejects(fetch(`http://127.0.0.1:${proxy.healthPort}/healthz`));
});

test("stop resets connections that outlive the grace period", async () => {
  await using upstream = await Upstream.listen();
  const log = new LineLog();
  const proxy = await start([listener(upstream.port)], { log }, configOf({ drainSeconds: 0.1 }));
  const client = dial(proxy);
  await once(client, "connect");
  await upstream.next();
  await proxy.stop();
  assert.equal((await endOf(client)).how, "ECONNRESET");
  assert.deepEqual(log.lines.at(-1)?.fields, { finished: 0, reset: 1 });
});

/** A feed controlled by the test; `publish` publishes targets whose upstreams are on this machine. */
function feedOf(first: readonly PublishedTarget[]) {
  let found = (_targets: PublishedTargets | undefined): void => {};
  const feed: TargetsReader = {
    start(callback) {
      found = callback;
      callback({ revision: "first", targets: first });
      return { stop: async () => {} };
    },
  };
  return { feed, publish: (targets: readonly PublishedTarget[]) => found({ revision: "next", targets }) };
}

function published(name: string, upstreamPort: number, listenPort: number, protocol: "v1" | "v2"): PublishedTarget {
  const ports = [{ port: 443, listenPort, upstreamPort, protocol }];
  return { name, upstream: "127.0.0.1", ports, clusterIPs: [] };
}

/** The engine for this machine, with a function that waits for its next dial report. */
async function observedEngine() {
  const make = await chooseEngine(configOf().proxy, silentLogger);
  const events = new EventEmitter();
  const makeEngine: MakeEngine = (deps) => {
    const onDial: typeof deps.onDial = (report) => {
      deps.onDial(report);
      events.emit("reported");
    };
    return make({ ...deps, onDial });
  };
  return { makeEngine, nextReport: () => once(events, "reported") };
}

/** The page rests for a while after it was rendered: tests wait for what it should list. */
async function listening(proxy: RunningProxy): Promise<string> {
  return (JSON.parse((await get(proxy, "/targets")).text) as { listening: string[] }).listening.join();
}

test("targets come and go without a restart, each with its own header; other connections continue", async () => {
  await using one = await Upstream.listen();
  await using two = await Upstream.listen();
  const [portOne, portTwo] = [await freePort(), await freePort()];
  const a = published("a", one.port, portOne, "v1");
  const b = published("b", two.port, portTwo, "v2");
  const { feed, publish } = feedOf([a]);
  const proxy = await runProxy(configOf(), { log: silentLogger, targetsReader: feed });
  assert.equal(await listening(proxy), "a");
  const staying = connect({ port: portOne, host: "127.0.0.1" }).on("error", () => {});
  staying.write("hello");
  const arrived = await one.next();
  assert.equal((await takeHeader(arrived)).version, 1);
  publish([a, b]);
  await until(async () => (await listening(proxy)) === "a,b", "both targets");
  const other = connect({ port: portTwo, host: "127.0.0.1" }).on("error", () => {});
  other.write("hello");
  const second = await two.next();
  assert.equal((await takeHeader(second)).version, 2);
  publish([a]);
  await until(async () => (await listening(proxy)) === "a", "one target");
  // The connections of a removed target can still finish.
  other.write(" again");
  assert.equal((await take(second, 11)).toString(), "hello again");
  staying.write(" too");
  assert.equal((await take(arrived, 9)).toString(), "hello too");
  assert.equal(await refusal(portTwo), "ECONNREFUSED");
  for (const socket of [staying, other, arrived, second]) socket.destroy();
  await proxy.stop();
});

test("a port in use by another process is not bound, and is bound as soon as it is free", async (t) => {
  await using upstream = await Upstream.listen();
  const [mine, taken] = [await freePort(), await freePort()];
  const blocker = createServer().listen(taken, "127.0.0.1");
  await once(blocker, "listening");
  const { feed, publish } = feedOf([published("a", upstream.port, mine, "v1")]);
  const deps = { log: silentLogger, targetsReader: feed, rebindMs: 50 };
  const proxy = await runProxy(configOf(), deps);
  t.after(() => proxy.stop());
  publish([published("a", upstream.port, mine, "v1"), published("b", upstream.port, taken, "v1")]);
  await until(async () => (await get(proxy, "/readyz")).status === 503, "the listener to be missed");
  assert.equal(await listening(proxy), "a");
  blocker.close();
  await until(async () => (await listening(proxy)) === "a,b", "both targets");
  assert.equal((await get(proxy, "/readyz")).status, 200);
});

test("without published targets the config's targets are used", async () => {
  await using upstream = await Upstream.listen();
  const listenPort = await freePort();
  const config = configOf({}, [
    { name: "own", upstream: { host: "127.0.0.1" }, ports: [{ port: 80, upstreamPort: upstream.port, listenPort }] },
  ]);
  const feed: TargetsReader = {
    start(found) {
      found(undefined);
      return { stop: async () => {} };
    },
  };
  const proxy = await runProxy(config, { log: silentLogger, targetsReader: feed });
  assert.equal(await listening(proxy), "own");
  await proxy.stop();
});

test("if open files lower the connection limit, a source gets no larger share of the connections", async () => {
  let limits: EngineLimits | undefined;
  const makeEngine: MakeEngine = (options) => {
    limits = options.limits;
    throw new Error("seen");
  };
  // More connections than any process may open.
  const config = configOf({ maxConnections: 1_000_000_000, maxConnectionsPerSource: 100_000_000 });
  await assert.rejects(start([], { makeEngine }, config), /seen/);
  assert.ok(limits !== undefined && limits.maxConnections < 1_000_000_000);
  assert.equal(limits.maxConnectionsPerSource, Math.ceil(limits.maxConnections / 10));
});
