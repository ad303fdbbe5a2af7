import assert from "node:assert/strict";
import { closeSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import type { Socket } from "node:net";
import { test } from "node:test";
import { Rig, soon, Upstream, until } from "../conformance/rig.ts";
import { endOf } from "../conformance/streams.ts";
import type { EngineOptions, MakeEngine } from "../engine.ts";
import { linuxEngine, workerCount } from "./engine.ts";

/** This process's descriptor of a socket that listens on a port of 127.0.0.1. */
function listeningFd(port: number): number {
  const wanted = `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const row = readFileSync("/proc/self/net/tcp", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .find((fields) => fields[1] === wanted && fields[3] === "0A");
  const found = openFiles().find(([, link]) => link === `socket:[${row?.[9]}]`);
  assert.ok(found !== undefined, "the listening socket is found");
  return found[0];
}

function openFiles(): [fd: number, link: string][] {
  return readdirSync("/proc/self/fd").flatMap((name): [number, string][] => {
    try {
      return [[Number(name), readlinkSync(`/proc/self/fd/${name}`)]];
    } catch {
      return [];
    }
  });
}

test("a worker that dies is reported, resets its connections, and the rest drains", async () => {
  const broken: Error[] = [];
  const make: MakeEngine = (options: EngineOptions) =>
    linuxEngine(1)({ ...options, onBroken: (error) => void broken.push(error) });
  await using rig = await Rig.start(make);
  const client = await rig.connect();
  client.write("x");
  await rig.upstream.next();
  await until(() => rig.stats().clientBytes === 1, "a byte to be relayed");
  const ending = endOf(client);
  // Makes the worker fail: it must stop accepting on a socket that is already closed. Only a bug can cause this.
  closeSync(listeningFd(rig.port()));
  await soon(rig.engine.update({ ...rig.relaySpec(), listeners: [] }), "the update to end all the same");
  await until(() => broken.length === 1, "the report");
  assert.match(broken[0]?.message ?? "", /epoll_ctl EBADF/);
  assert.ok(rig.lines.some((line) => line.includes("died")));
  assert.equal((await ending).how, "ECONNRESET");
  assert.deepEqual(await rig.engine.drain(5000), { finished: 0, reset: 0 });
});

test("several workers share the clients, and the limits apply across all of them", async () => {
  await using rig = await Rig.start(linuxEngine(3), { limits: { maxConnections: 20 } });
  const clients = Array.from({ length: 30 }, () => rig.dial());
  let refused = 0;
  for (const client of clients) client.on("error", () => (refused += 1));
  await until(() => rig.stats().accepted + rig.stats().refused["limit-total"] === 30, "all to be taken in or refused");
  assert.equal(rig.stats().accepted, 20);
  await until(() => refused === 10, "the refused to notice");
  for (const client of clients) client.resetAndDestroy();
  await rig.idle();
});

test("after several thousand connections no descriptor is left open", async () => {
  const before = new Set(openFiles().map(([, link]) => link));
  {
    await using rig = await Rig.start(linuxEngine(2));
    rig.upstream.server.on("connection", (socket: Socket) => socket.resume().end("answer"));
    const one = async (index: number): Promise<void> => {
      const client = rig.dial();
      if (index % 5 === 0) client.resetAndDestroy();
      else {
        client.end("question");
        await endOf(client);
      }
    };
    for (let round = 0; round < 60; round += 1) {
      await Promise.all(Array.from({ length: 50 }, (_, index) => one(index)));
    }
    await rig.idle();
  }
  // Earlier tests may still close theirs.
  const isNew = ([, link]: [fd: number, link: string]) => /^(socket|pipe):/.test(link) && !before.has(link);
  await until(() => !openFiles().some(isNew), "every new socket and pipe to be closed");
});

test("a port is not shared by accident with another process of the same user", async () => {
  await using other = await Upstream.listen();
  await using rig = await Rig.start(linuxEngine(2));
  await rig.engine.update(rig.relaySpec({}, rig.spec({ name: "second:443", port: other.port })));
  assert.match(rig.engine.listeners()[1]?.error ?? "", /EADDRINUSE/);
  // A second engine does not get the port of the first either, although both set SO_REUSEPORT.
  const second = await Rig.start(linuxEngine(2));
  await second.engine.update(second.relaySpec({ port: rig.port() }));
  assert.match(second.engine.listeners()[0]?.error ?? "", /EADDRINUSE/);
  await second[Symbol.asyncDispose]();
});
test("the automatic number of workers is half of the cores, at least one and at most four", () => {
  const counts = [1, 2, 3, 4, 5, 6, 8, 64].map((cores) => workerCount(0, cores));
  assert.deepEqual(counts, [1, 1, 1, 2, 2, 3, 4, 4]);
});

test("a configured number of workers applies, whatever the number of cores", () => {
  assert.equal(workerCount(3, 1), 3);
  assert.equal(workerCount(1, 64), 1);
});
