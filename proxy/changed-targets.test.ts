import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { PublishedTarget, PublishedTargets } from "#lib/documents/targets-format.ts";
import type { TargetsReader } from "#lib/documents/targets-reader.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { FakeClock } from "#test/fakes/clock.ts";
import { chooseEngine } from "./choose-engine.ts";
import { freePort, soon, Upstream } from "./conformance/rig.ts";
import { endOf, take } from "./conformance/streams.ts";
import type { MakeEngine } from "./engine.ts";
import { runProxy } from "./run.ts";

/*
 * A tenant's changes to a discovered target apply at once, whatever else the document contains.
 */
const CONFIG = parseConfig({ proxy: { address: "127.0.0.1", healthPort: 0, drainSeconds: 5 } });

interface Port {
  readonly listenPort: number;
  readonly upstreamPort: number;
  readonly protocol?: "v1" | "none";
}

function target(
  name: string,
  { protocol = "none", ...ports }: Port,
  upstreamIPs?: readonly string[] | undefined,
): PublishedTarget {
  // The tenant's DNS server may or may not answer for this name.
  return { name, upstream: `${name}.test`, upstreamIPs, ports: [{ port: 443, protocol, ...ports }], clusterIPs: [] };
}

/** A proxy with published targets. No lookup ever ends, and its timeout never passes. */
async function proxyWith(t: TestContext, first: readonly PublishedTarget[]) {
  const make = await chooseEngine(CONFIG.proxy, silentLogger);
  const updates = new EventEmitter();
  const makeEngine: MakeEngine = (deps) => {
    const engine = make(deps);
    const update = engine.update.bind(engine);
    engine.update = async (spec) => {
      await update(spec);
      updates.emit("applied");
    };
    return engine;
  };
  let found = (_targets: PublishedTargets | undefined): void => {};
  const targetsReader: TargetsReader = {
    start(callback) {
      found = callback;
      callback({ revision: "first", targets: first });
      return { stop: async () => {} };
    },
  };
  const asked: string[] = [];
  const lookup = (host: string): Promise<readonly string[]> => {
    asked.push(host);
    return new Promise(() => {});
  };
  const deps = { log: silentLogger, targetsReader, makeEngine, clock: new FakeClock(), lookup };
  const proxy = await runProxy(CONFIG, deps);
  const clients: Socket[] = [];
  t.after(() => {
    for (const client of clients) client.destroy();
    return proxy.stop();
  });
  return {
    asked,
    dial: (port: number): Socket => {
      const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true }).on("error", () => {});
      clients.push(client);
      return client;
    },
    listening: () => proxy.listeners().filter(({ bound }) => bound),
    /** Publishes targets, and waits until the engine has applied them. */
    publish: async (targets: readonly PublishedTarget[]) => {
      const applied = once(updates, "applied");
      found({ revision: "next", targets });
      await soon(applied, "the targets to apply");
    },
  };
}

test("listeners of a removed target or a deleted Service close even while a name is looked up", async (t) => {
  await using upstream = await Upstream.listen();
  const [one, two, slow] = [await freePort(), await freePort(), await freePort()];
  const gone = (ips: readonly string[]) => target("gone", { listenPort: two, upstreamPort: upstream.port }, ips);
  const removed = target("removed", { listenPort: one, upstreamPort: upstream.port }, ["127.0.0.1"]);
  const proxy = await proxyWith(t, [removed, gone(["127.0.0.1"])]);
  assert.equal(proxy.listening().length, 2);
  const client = proxy.dial(two);
  client.write("hello");
  const arrived = await upstream.next();
  const waiting = target("waiting", { listenPort: slow, upstreamPort: upstream.port });
  await proxy.publish([gone(["127.0.0.1"]), waiting]);
  assert.deepEqual(
    proxy.listening().map(({ name }) => name),
    ["gone:443"],
  );
  await proxy.publish([gone([]), waiting]);
  assert.deepEqual(proxy.listening(), []);
  assert.equal((await endOf(proxy.dial(two))).how, "ECONNREFUSED");
  // An open connection keeps its backend, whatever changes in the Service.
  client.end(" again");
  assert.equal((await endOf(arrived)).bytes.toString(), "hello again");
  arrived.end();
  assert.deepEqual(proxy.asked, ["waiting.test"], "names of discovered targets are not looked up");
});

test("new addresses of a discovered target apply to the next connection; its name is never looked up", async (t) => {
  await using before = await Upstream.listen();
  await using after = await Upstream.listen("127.0.0.2", before.port);
  const listenPort = await freePort();
  const at = (...ips: string[]) => target("found", { listenPort, upstreamPort: before.port }, ips);
  const proxy = await proxyWith(t, [at("127.0.0.1")]);
  proxy.dial(listenPort).write("one");
  assert.equal((await take(await before.next(), 3)).toString(), "one");
  await proxy.publish([at("127.0.0.2")]);
  proxy.dial(listenPort).write("two");
  assert.equal((await take(await after.next(), 3)).toString(), "two");
  assert.deepEqual([before.sockets.length, proxy.asked.length], [1, 0]);
});

test("a target whose host name changes keeps its addresses until the new name is resolved", async (t) => {
  await using upstream = await Upstream.listen();
  const listenPort = await freePort();
  const at = (host: string): PublishedTarget => {
    return { ...target("own", { listenPort, upstreamPort: upstream.port }), upstream: host };
  };
  const proxy = await proxyWith(t, [at("127.0.0.1")]);
  await proxy.publish([at("slow.test")]);
  proxy.dial(listenPort).write("one");
  assert.equal((await take(await upstream.next(), 3)).toString(), "one");
  assert.deepEqual(proxy.asked, ["slow.test"]);
});

test("with protocol none, discovered targets refuse clients' PROXY headers, configured ones pass them", async (t) => {
  await using upstream = await Upstream.listen();
  const [found, configured] = [await freePort(), await freePort()];
  const upstreamPort = upstream.port;
  const proxy = await proxyWith(t, [
    target("found", { listenPort: found, upstreamPort }, ["127.0.0.1"]),
    { ...target("own", { listenPort: configured, upstreamPort }), upstream: "127.0.0.1" },
  ]);
  const header = "PROXY TCP4 203.0.113.66 198.51.100.9 1 443\r\n";
  const forged = proxy.dial(found);
  forged.write(header);
  assert.equal((await endOf(forged)).how, "ECONNRESET");
  const client = proxy.dial(configured);
  client.end(header);
  let text = "";
  // The refused client's connection may have reached the upstream, but without a byte.
  while (text === "") text = (await endOf(await upstream.next())).bytes.toString();
  assert.equal(text, header);
});
