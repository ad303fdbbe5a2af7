import assert from "node:assert/strict";
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { type Page, startHealthServer } from "./listen.ts";

const LOCAL = "127.0.0.1";
const MIB = 1024 * 1024;
/** Larger than the sockets' buffers. Two such answers exceed the limit for all unread answers. */
const LARGE = "x".repeat(9 * MIB);

async function start(t: TestContext, render: () => Page = () => ({ contentType: "text/plain", body: LARGE })) {
  const ok = () => ({ ok: true, text: "fine" });
  const pages = { "/status": { render } };
  const server = await startHealthServer({
    address: LOCAL,
    port: 0,
    live: ok,
    ready: ok,
    registry: new MetricsRegistry(),
    pages,
  });
  t.after(() => server.close());
  const open = async (text = ""): Promise<Socket> => {
    const socket = connect(server.port, LOCAL);
    t.after(() => socket.destroy());
    socket.on("error", () => {});
    await once(socket, "connect");
    socket.write(text);
    return socket;
  };
  const ask = async (path: string): Promise<string> => {
    const [response] = (await once(get({ host: LOCAL, port: server.port, path }), "response")) as [IncomingMessage];
    let text = "";
    for await (const chunk of response) text += chunk;
    return text;
  };
  return { open, ask };
}

test("silent connections replace each other, and probes are still answered", async (t) => {
  const { open, ask } = await start(t);
  const silent: Socket[] = [];
  for (let opened = 0; opened < 200; opened += 1) silent.push(await open());
  await Promise.all(silent.slice(0, 200 - 64).map((socket) => socket.closed || once(socket, "close")));
  assert.equal(await ask("/healthz"), "fine\n");
});

test("a connection waits for its first request longer than a request may take; a request that stops does not", {
  timeout: 30_000,
}, async (t) => {
  const { open } = await start(t);
  const [spare, slow] = [await open(), await open("G")];
  const [refusal] = (await once(slow, "data")) as [Buffer];
  assert.match(refusal.toString(), /^HTTP\/1\.1 408 /);
  await once(slow, "close");
  await delay(1_500);
  spare.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  const [answer] = (await once(spare, "data")) as [Buffer];
  assert.match(answer.toString(), /^HTTP\/1\.1 200 .*timeout=120/s);
});

/** Requests the page and reads only what arrives first. */
async function reader(open: (text: string) => Promise<Socket>): Promise<Socket> {
  const socket = await open("GET /status HTTP/1.1\r\nHost: x\r\n\r\n");
  await once(socket, "readable");
  return socket;
}

test("if clients do not read a large page, the first are disconnected; a client that reads gets all", async (t) => {
  const { open, ask } = await start(t);
  const readers: Socket[] = [];
  for (let opened = 0; opened < 5; opened += 1) readers.push(await reader(open));
  assert.equal((await ask("/status")).length, LARGE.length);
  for (const socket of readers) {
    socket.resume();
    await once(socket, "close");
    assert.ok(socket.bytesRead < LARGE.length, `${socket.bytesRead} bytes`);
  }
});

test("a page that alone exceeds the limit for unread answers is still sent", async (t) => {
  const { ask } = await start(t, () => ({ contentType: "text/plain", body: LARGE + LARGE }));
  assert.equal((await ask("/status")).length, 2 * LARGE.length);
});

test("a large page must be read within 30 s", async (t) => {
  const { open } = await start(t);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const socket = await reader(open);
  t.mock.timers.tick(30_000);
  socket.resume();
  await once(socket, "close");
  assert.ok(socket.bytesRead < LARGE.length, `${socket.bytesRead} bytes`);
});

/** A page that says how often it was rendered. Each rendering takes `ms` of CPU time. */
function counted(ms: number): () => Page {
  let rendered = 0;
  return () => {
    rendered += 1;
    const { user } = process.threadCpuUsage();
    while (process.threadCpuUsage().user < user + ms * 1_000);
    return { contentType: "text/plain", body: String(rendered) };
  };
}

test("rendering takes at most a tenth of the thread: above that, requests get the last page", async (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const { ask } = await start(t, counted(150));
  for (let asked = 0; asked < 20; asked += 1) assert.equal(await ask("/status"), "1");
  now += 60_000;
  assert.equal(await ask("/status"), "2");
});

test("a rarely requested page is always new", async (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const { ask } = await start(t, counted(20));
  for (let asked = 1; asked < 10; asked += 1) {
    assert.equal(await ask("/status"), String(asked));
    now += 1_000;
  }
});
