import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import type { DialCause } from "../close-causes.ts";
import { NEXT_ADDRESS_MS } from "../engine.ts";
import { type Case, LISTENER, pause, Rig, type RigOptions, Upstream, until } from "./rig.ts";
import { endOf } from "./streams.ts";

/** A port without a listener: it was free a moment ago. */
async function closedPort(): Promise<number> {
  await using upstream = await Upstream.listen();
  return upstream.port;
}

/** Dials without a reachable upstream. The client must be reset, and the counters must have the cause. */
async function refused(rig: Rig, cause: DialCause, firstBytes = ""): Promise<void> {
  const client = rig.dial();
  if (firstBytes !== "") client.write(firstBytes);
  assert.equal((await endOf(client)).how, "ECONNRESET");
  await rig.idle();
  assert.equal(rig.stats().dialErrors[cause], 1);
  assert.equal(rig.stats().refused.upstream, 1);
  // An engine with its own threads may report the failure a moment later.
  await until(() => rig.reports.length > 0, "the report");
  const report = rig.reports.at(-1);
  assert.deepEqual([report?.listener, report?.connected, report?.failures.at(-1)?.cause], [LISTENER, false, cause]);
}

function refusedFor(
  cause: DialCause,
  title: string,
  options: RigOptions,
  change: (rig: Rig) => object = () => ({}),
): Case {
  return [
    title,
    async (make) => {
      await using rig = await Rig.start(make, options);
      await rig.engine.update(rig.relaySpec(change(rig)));
      await refused(rig, cause);
    },
  ];
}

export const failureCases: readonly Case[] = [
  [
    "resets the client when the upstream refuses, whether or not it has sent bytes",
    async (make) => {
      const upstream = { addresses: ["127.0.0.1"], port: await closedPort() };
      for (const firstBytes of ["", "GET / HTTP/1.1\r\n"]) {
        await using rig = await Rig.start(make, { upstream });
        await refused(rig, "connection-refused", firstBytes);
        assert.match(rig.reports[0]?.failures[0]?.detail ?? "", /127\.0\.0\.1/);
      }
    },
  ],

  [
    "resets a client that has already half-closed when the upstream refuses",
    async (make) => {
      await using rig = await Rig.start(make, { upstream: { addresses: ["127.0.0.1"], port: await closedPort() } });
      const client = rig.dial();
      client.end();
      assert.equal((await endOf(client)).how, "ECONNRESET");
    },
  ],

  [
    "tries the next address, and reports which one failed",
    async (make) => {
      await using rig = await Rig.start(make);
      const upstream = { addresses: ["127.0.0.2", "127.0.0.1"], port: rig.upstream.port };
      await rig.engine.update(rig.relaySpec({ upstream }));
      await rig.connect();
      await rig.upstream.next();
      await until(() => rig.reports.length > 0, "the report");
      assert.equal(rig.stats().dialErrors["connection-refused"], 1);
      assert.equal(rig.stats().refused.upstream, 0);
      const failed = rig.reports[0];
      assert.deepEqual([failed?.connected, failed?.failures.map((failure) => failure.address)], [true, ["127.0.0.2"]]);
      // The failed address is avoided, even if it is next in the rotation.
      for (let round = 0; round < 4; round += 1) {
        await rig.connect();
        await rig.upstream.next();
      }
      assert.equal(rig.stats().dialErrors["connection-refused"], 1);
    },
  ],

  [
    "reports nothing while dials succeed, and the first success after a failure",
    async (make) => {
      await using rig = await Rig.start(make);
      const good = rig.spec().upstream;
      const dialOnce = async (): Promise<void> => {
        await rig.connect();
        await rig.upstream.next();
      };
      const outcomes = (): boolean[] => rig.reports.map((report) => report.connected);
      for (let round = 0; round < 3; round += 1) await dialOnce();
      await until(() => outcomes().length > 0, "the first report");
      assert.deepEqual(outcomes(), [true]);
      await rig.engine.update(rig.relaySpec({ upstream: { ...good, port: await closedPort() } }));
      await endOf(rig.dial());
      await rig.engine.update(rig.relaySpec({ upstream: good }));
      for (let round = 0; round < 3; round += 1) await dialOnce();
      await until(() => outcomes().length > 2, "the report of the recovery");
      assert.deepEqual(outcomes(), [true, false, true]);
    },
  ],

  refusedFor("dns-nxdomain", "refuses with the given cause if there is no address", {
    upstream: { addresses: [], port: 443, unresolved: "dns-nxdomain" },
  }),
  refusedFor("self", "does not dial its own listener", {}, (rig) => ({
    upstream: { addresses: ["127.0.0.1"], port: rig.port() },
  })),
  refusedFor("self", "does not dial the loopback side of a wildcard listener", { address: "0.0.0.0" }, (rig) => ({
    upstream: { addresses: ["127.9.9.9"], port: rig.port() },
  })),
  refusedFor("self", "does not dial an IPv4-mapped form of its own address", { address: "::" }, (rig) => ({
    upstream: { addresses: ["::ffff:127.0.0.1"], port: rig.port() },
  })),
  refusedFor(
    "self",
    "does not dial an address of this machine at a port it listens on",
    { address: "::", self: { interfaceAddresses: ["198.51.100.7"], frontEndpoints: [] } },
    (rig) => ({ upstream: { addresses: ["198.51.100.7"], port: rig.port() } }),
  ),
  [
    "does not dial its own front Service",
    async (make) => {
      await using rig = await Rig.start(make);
      const self = { interfaceAddresses: [], frontEndpoints: [{ address: "127.0.0.1", port: rig.upstream.port }] };
      await rig.engine.update({ ...rig.relaySpec(), self });
      await refused(rig, "self");
    },
  ],

  [
    "dials its own machine at another port",
    async (make) => {
      await using rig = await Rig.start(make, {
        address: "::",
        self: { interfaceAddresses: ["127.0.0.1"], frontEndpoints: [{ address: "127.0.0.1", port: 1 }] },
      });
      await rig.connect();
      await rig.upstream.next();
    },
  ],

  [
    "gives up a dial without an answer after the connect timeout",
    async (make) => {
      await using hole = await Blackhole.open();
      const upstream = { addresses: ["127.0.0.1"], port: hole.port };
      await using rig = await Rig.start(make, { upstream, limits: { connectTimeoutMs: 150 } });
      const begun = performance.now();
      await refused(rig, "timeout", "GET / HTTP/1.1\r\n");
      const took = performance.now() - begun;
      assert.ok(took > 140 && took < 4000, `took ${took} ms`);
    },
  ],

  [
    "does not wait for the connect timeout at an address without an answer when there is another one",
    async (make) => {
      await using hole = await Blackhole.open();
      await using other = await Upstream.listen("127.0.0.2", hole.port);
      const upstream = { addresses: ["127.0.0.1", "127.0.0.2"], port: hole.port };
      await using rig = await Rig.start(make, { upstream, limits: { connectTimeoutMs: 60_000 } });
      // Connects twice, because either address may be the first.
      await Promise.all([rig.connect(), rig.connect()]);
      await Promise.all([other.next(), other.next()]);
      await until(() => rig.reports.some(({ failures }) => failures.length > 0), "the report");
      const [failure] = rig.reports.flatMap(({ failures }) => failures);
      assert.deepEqual([failure?.address, failure?.cause], ["127.0.0.1", "timeout"]);
      assert.match(failure?.detail ?? "", new RegExp(` in ${NEXT_ADDRESS_MS} ms$`));
    },
  ],

  [
    "drops a client that resets while its upstream is being dialled",
    async (make) => {
      await using hole = await Blackhole.open();
      await using rig = await Rig.start(make, { upstream: { addresses: ["127.0.0.1"], port: hole.port } });
      const client = await rig.connect();
      await until(() => rig.stats().active === 1, "the client to be accepted");
      client.resetAndDestroy();
      await once(client, "close");
      await rig.idle();
      assert.deepEqual(rig.stats().refused.upstream, 0);
    },
  ],
];

/*
 * A local address that answers no SYN: a listening socket whose thread sleeps and whose accept queue is full.
 * Linux drops further SYNs then (net.ipv4.tcp_abort_on_overflow is 0 by default).
 */
if (!isMainThread && (workerData as { blackhole?: boolean } | null)?.blackhole === true) {
  const server = createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
    parentPort?.postMessage(server.address());
    // Accepts nothing until the thread is terminated.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
}

class Blackhole {
  readonly port: number;
  readonly #worker: Worker;
  readonly #fillers: Socket[];

  private constructor(port: number, worker: Worker, fillers: Socket[]) {
    this.port = port;
    this.#worker = worker;
    this.#fillers = fillers;
  }

  static async open(): Promise<Blackhole> {
    const worker = new Worker(new URL(import.meta.url), { workerData: { blackhole: true } });
    const [{ port }] = (await once(worker, "message")) as [{ port: number }];
    const fillers: Socket[] = [];
    for (let tries = 0; tries < 16; tries += 1) {
      const filler = connect(port, "127.0.0.1").on("error", () => {});
      fillers.push(filler);
      const connected = once(filler, "connect").then(() => true);
      if (!(await Promise.race([connected, pause(200).then(() => false)]))) return new Blackhole(port, worker, fillers);
    }
    throw new Error("the accept queue would not fill");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const filler of this.#fillers) filler.destroy();
    await this.#worker.terminate();
  }
}
