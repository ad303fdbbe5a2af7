import assert from "node:assert/strict";
import { once } from "node:events";
import { hasCode } from "#lib/errors/errors.ts";
import { type Case, freePort, LISTENER, pause, Rig, Upstream, until } from "./rig.ts";
import { digest, endOf, randomBytes, send, take, takeHeader } from "./streams.ts";

const MIB = 1024 * 1024;

/** Whether a new client can connect. */
async function accepts(rig: Rig, port: number): Promise<boolean> {
  const client = rig.dial({ port });
  return await Promise.race([once(client, "connect").then(() => true), endOf(client).then(() => false)]).catch(
    () => false,
  );
}

export const lifecycleCases: readonly Case[] = [
  [
    "reports the port bound for port 0, and counts connections and bytes",
    async (make) => {
      await using rig = await Rig.start(make);
      const [listener] = rig.engine.listeners();
      assert.ok(listener !== undefined && listener.port > 0);
      assert.deepEqual([listener.name, listener.target, listener.bound], [LISTENER, "target", true]);
      const client = await rig.connect();
      client.end("12345");
      const upstream = await rig.upstream.next();
      upstream.end("123");
      await Promise.all([endOf(upstream), endOf(client)]);
      await rig.idle();
      const { accepted, active, clientBytes, upstreamBytes, connectBuckets, connectSecondsSum } = rig.stats();
      assert.deepEqual(
        { accepted, active, clientBytes, upstreamBytes },
        { accepted: 1, active: 0, clientBytes: 5, upstreamBytes: 3 },
      );
      assert.equal(
        connectBuckets.reduce((sum, count) => sum + count),
        1,
      );
      assert.ok(connectSecondsSum > 0 && connectSecondsSum < 1);
    },
  ],

  [
    "does not start, and leaves no port bound, if one listener cannot be bound",
    async (make) => {
      await using rig = await Rig.start(make);
      const engine = make({ limits: { ...TINY }, log: NO_LOG, onDial: () => {} });
      const inUse = rig.spec({ name: "in-use", port: rig.upstream.port });
      const free = await freePort();
      const plan = rig.relaySpec({ port: free }, inUse);
      await assert.rejects(engine.start(plan), (error) => hasCode(error, "listen-failed"));
      assert.equal(await accepts(rig, free), false);
      await engine.close();
    },
  ],

  [
    "adds a listener at run time and removes one, whose connections finish",
    async (make) => {
      await using rig = await Rig.start(make);
      const old = await rig.connect();
      const oldUpstream = await rig.upstream.next();
      await takeHeader(oldUpstream);
      const oldPort = rig.port();
      const added = rig.spec({ name: "other:80", target: "other" });
      await rig.engine.update({ ...rig.relaySpec(), listeners: [added] });
      assert.deepEqual(
        rig.engine.listeners().map((listener) => listener.name),
        ["other:80"],
      );
      assert.equal(await accepts(rig, oldPort), false);
      await rig.connect({ port: rig.port("other:80") });
      await rig.upstream.next();
      assert.equal(rig.stats("other").accepted, 1);
      const answer = randomBytes(MIB);
      old.end("still here");
      oldUpstream.end(answer);
      assert.equal(digest((await endOf(old)).bytes), digest(answer));
      assert.equal((await endOf(oldUpstream)).bytes.toString(), "still here");
    },
  ],

  [
    "resets the connections of a removed listener after its grace period, and no others",
    async (make) => {
      await using rig = await Rig.start(make, { limits: { dropGraceMs: 100 } });
      const kept = rig.spec({ name: "kept:443", target: "kept" });
      await rig.engine.update(rig.relaySpec({}, kept));
      const staying = await rig.connect({ port: rig.port("kept:443") });
      await rig.upstream.next();
      const going = await rig.connect();
      await rig.upstream.next();
      await rig.engine.update({ ...rig.relaySpec(), listeners: [kept] });
      assert.equal((await endOf(going)).how, "ECONNRESET");
      assert.equal(rig.stats().cut.drain, 1);
      await pause(20);
      assert.equal(staying.destroyed, false);
      assert.equal(rig.stats("kept").active, 1);
    },
  ],

  [
    "sends new connections to new addresses, and does not affect open ones",
    async (make) => {
      await using rig = await Rig.start(make);
      await using moved = await Upstream.listen("127.0.0.2");
      const old = await rig.connect();
      const oldUpstream = await rig.upstream.next();
      const port = rig.port();
      await rig.engine.update(
        rig.relaySpec({ protocol: "v2", upstream: { addresses: ["127.0.0.2"], port: moved.port } }),
      );
      assert.equal(rig.port(), port);
      await rig.connect();
      assert.equal((await takeHeader(await moved.next())).version, 2);
      old.write("a");
      await takeHeader(oldUpstream);
      assert.equal((await take(oldUpstream, 1)).toString(), "a");
      assert.equal(rig.upstream.sockets.length, 1);
    },
  ],

  [
    "continues when an update contains a port in use, and binds it once it is free",
    async (make) => {
      await using rig = await Rig.start(make);
      const blocker = await Upstream.listen();
      const wanted = rig.spec({ name: "second:443", port: blocker.port });
      await rig.engine.update(rig.relaySpec({}, wanted));
      const status = rig.engine.listeners().find((listener) => listener.name === "second:443");
      assert.equal(status?.bound, false);
      assert.match(status?.error ?? "", /EADDRINUSE/);
      await rig.connect();
      await rig.upstream.next();
      await blocker[Symbol.asyncDispose]();
      await rig.engine.update(rig.relaySpec({}, wanted));
      assert.equal(rig.engine.listeners().find((listener) => listener.name === "second:443")?.bound, true);
      await rig.connect({ port: wanted.port });
      await rig.upstream.next();
    },
  ],

  [
    "moves a port from one listener to another within one update",
    async (make) => {
      await using rig = await Rig.start(make);
      const port = rig.port();
      await rig.engine.update({ ...rig.relaySpec(), listeners: [rig.spec({ name: "new:443", target: "new", port })] });
      await rig.connect({ port });
      await until(() => rig.stats("new").accepted === 1, "the new listener to accept");
    },
  ],

  [
    "lets a transfer finish in a drain, accepts no new client, and reports the result",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      client.write("GET /");
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      const port = rig.port();
      const drained = rig.engine.drain(5000);
      await until(() => rig.engine.listeners().every((listener) => !listener.bound), "the listeners to close");
      assert.equal(await accepts(rig, port), false);
      await pause(50);
      const answer = randomBytes(4 * MIB);
      const sent = send(upstream, answer).then(() => upstream.end());
      const ending = await endOf(client);
      await sent;
      assert.deepEqual([ending.how, digest(ending.bytes)], ["FIN", digest(answer)]);
      client.end();
      assert.deepEqual(await drained, { finished: 1, reset: 0 });
    },
  ],

  [
    "resets connections that have not finished within the grace period of a drain",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      const upstream = await rig.upstream.next();
      await takeHeader(upstream);
      const endings = Promise.all([endOf(client), endOf(upstream)]);
      const begun = performance.now();
      assert.deepEqual(await rig.engine.drain(150), { finished: 0, reset: 1 });
      assert.ok(performance.now() - begun > 140);
      assert.deepEqual(
        (await endings).map((ending) => ending.how),
        ["ECONNRESET", "ECONNRESET"],
      );
      assert.equal(rig.stats().cut.drain, 1);
      assert.equal(rig.stats().active, 0);
    },
  ],

  [
    "drains at once if nothing is open, and may be closed several times",
    async (make) => {
      await using rig = await Rig.start(make);
      const begun = performance.now();
      assert.deepEqual(await rig.engine.drain(60_000), { finished: 0, reset: 0 });
      assert.ok(performance.now() - begun < 1000);
      await Promise.all([rig.engine.close(), rig.engine.close()]);
      await rig.engine.update(rig.relaySpec());
      assert.ok(rig.engine.listeners().every((listener) => !listener.bound));
    },
  ],

  [
    "resets everything on close, even during a drain",
    async (make) => {
      await using rig = await Rig.start(make);
      const client = await rig.connect();
      await takeHeader(await rig.upstream.next());
      const ending = endOf(client);
      const drained = rig.engine.drain(60_000);
      await pause(10);
      await rig.engine.close();
      assert.equal((await ending).how, "ECONNRESET");
      await drained;
    },
  ],
];

const TINY = {
  maxConnections: 1,
  maxConnectionsPerSource: 1,
  connectTimeoutMs: 100,
  idleTimeoutMs: 0,
  halfClosedMs: 0,
  keepaliveMs: 0,
  firstBytesMs: 1,
  dropGraceMs: 0,
};
const NO_LOG = { debug() {}, info() {}, warn() {}, error() {} };
