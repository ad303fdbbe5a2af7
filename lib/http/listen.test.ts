import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { type TestContext, test } from "node:test";
import { hasCode } from "#lib/errors/errors.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { type HealthServerOptions, listen, livenessOf, startHealthServer, withoutPipelining } from "./listen.ts";

async function start(t: TestContext, options: Partial<HealthServerOptions> = {}) {
  const ok = () => ({ ok: true, text: "fine" });
  const server = await startHealthServer({
    address: "127.0.0.1",
    port: 0,
    live: ok,
    ready: ok,
    registry: new MetricsRegistry(),
    ...options,
  });
  t.after(() => server.close());
  const get = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, init);
    return { status: response.status, type: response.headers.get("content-type"), body: await response.text() };
  };
  return Object.assign(get, { port: server.port });
}

test("probes answer 200 or 503 with the current reason", async (t) => {
  const health = { ok: true, text: "ready" };
  const get = await start(t, { live: () => ({ ok: false, text: "stuck" }), ready: () => health });
  assert.deepEqual(await get("/healthz"), { status: 503, type: "text/plain", body: "stuck\n" });
  assert.deepEqual(await get("/readyz?verbose"), { status: 200, type: "text/plain", body: "ready\n" });
  Object.assign(health, { ok: false, text: "draining" });
  assert.deepEqual(await get("/readyz"), { status: 503, type: "text/plain", body: "draining\n" });
});

test("metrics have Prometheus' text format", async (t) => {
  const registry = new MetricsRegistry();
  registry.counter("things_total", "Things").inc(3);
  const { status, type, body } = await (await start(t, { registry }))("/metrics");
  assert.deepEqual([status, type], [200, registry.contentType]);
  assert.match(body, /^things_total 3$/m);
});

test("a component's page is served; other paths are not, even names of Object properties", async (t) => {
  const pages = { "/status": { render: () => ({ contentType: "application/json", body: '{"names":"é"}' }) } };
  const get = await start(t, { pages });
  assert.deepEqual(await get("/status"), { status: 200, type: "application/json", body: '{"names":"é"}' });
  for (const path of ["/", "/other", "/toString", "/__proto__", "//status"])
    assert.deepEqual(await get(path), { status: 404, type: "text/plain", body: "not found\n" }, path);
});

test("a page that takes a query is rendered for each query, even under load; other pages ignore it", async (t) => {
  const render = (query: URLSearchParams) => {
    // More than the thread's share of one second.
    for (const until = performance.now() + 60; performance.now() < until; );
    return { contentType: "text/plain", body: `[${query}]` };
  };
  const pages = { "/by": { render, takesQuery: true }, "/plain": { render } };
  const get = await start(t, { pages });
  const bodies: string[] = [];
  for (const query of ["a=1", "a=2", "a=3", "a=3"]) bodies.push((await get(`/by?${query}`)).body);
  assert.deepEqual(bodies, ["[a=1]", "[a=2]", "[a=3]", "[a=3]"]);
  assert.equal((await get("/plain?a=1")).body, "[]");
});

test("a page rests for nine times its CPU time: until then, requests get the last result", async (t) => {
  let now = 10_000;
  let rendered = 0;
  t.mock.method(performance, "now", () => now);
  const render = () => {
    const { user } = process.threadCpuUsage();
    while (process.threadCpuUsage().user < user + 60_000);
    return { contentType: "text/plain", body: String(++rendered) };
  };
  const get = await start(t, { pages: { "/status": { render } } });
  const ask = async () => Number((await get("/status")).body);
  const asked = [await ask(), await ask()];
  now += 9 * 60;
  assert.deepEqual([...asked, await ask()], [1, 1, 1]);
  now += 10_000;
  assert.equal(await ask(), 2);
});

test("silent connections replace each other, and probes are still answered", async (t) => {
  const get = await start(t);
  const silent = [];
  for (let opened = 0; opened < 200; opened += 1) {
    const socket = connect(get.port, "127.0.0.1").on("error", () => {});
    t.after(() => socket.destroy());
    await once(socket, "connect");
    silent.push(socket);
  }
  await Promise.all(silent.slice(0, 200 - 64).map((socket) => socket.closed || once(socket, "close")));
  assert.equal((await get("/healthz")).body, "fine\n");
});

test("a request before the previous answer ends the connection, and is not handled", async (t) => {
  let handled = 0;
  const server = createServer(
    withoutPipelining(() => {
      handled += 1;
    }),
  );
  await listen(server, 0, "127.0.0.1");
  t.after(() => server.close());
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1").on("error", () => {});
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100));
  await once(socket, "close");
  assert.equal(handled, 1);
});

test("a page is not rendered for a request that it refuses", async (t) => {
  let rendered = 0;
  const page = {
    render: () => ({ contentType: "text/plain", body: `${++rendered}` }),
    refusal: async (headers: IncomingHttpHeaders) => (headers["x-key"] === "right" ? undefined : "send the key"),
  };
  const get = await start(t, { pages: { "/status": page } });
  for (const headers of [{}, { "x-key": "wrong" }]) {
    assert.deepEqual(await get("/status", { headers }), { status: 403, type: "text/plain", body: "send the key\n" });
  }
  assert.equal(rendered, 0);
  assert.deepEqual((await get("/status", { headers: { "x-key": "right" } })).body, "1");
  assert.equal((await get("/status")).status, 403, "nor is what somebody else was shown");
});

test("an exception is answered with 500 without the reason, and the next request works", async (t) => {
  const get = await start(t, {
    live: () => {
      throw new Error("secret");
    },
    pages: {
      "/status": {
        render: () => {
          throw new Error("secret");
        },
      },
    },
  });
  for (const path of ["/healthz", "/status"]) {
    assert.deepEqual(await get(path), { status: 500, type: "text/plain", body: "internal error\n" });
  }
  assert.equal((await get("/readyz")).status, 200);
});

test("closing does not wait for idle connections", async () => {
  const ok = () => ({ ok: true, text: "" });
  const server = await startHealthServer({
    address: "127.0.0.1",
    port: 0,
    live: ok,
    ready: ok,
    registry: new MetricsRegistry(),
  });
  await (await fetch(`http://127.0.0.1:${server.port}/healthz`)).text();
  const before = performance.now();
  await server.close();
  assert.ok(performance.now() - before < 1_000);
  await assert.rejects(fetch(`http://127.0.0.1:${server.port}/healthz`));
});

test("a port in use is reported as `listen-failed`, with the port and the cause", async (t) => {
  const taken = createServer();
  await listen(taken, 0, "127.0.0.1");
  t.after(() => taken.close());
  const address = taken.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  await assert.rejects(listen(createServer(), port, "127.0.0.1"), (error: Error) => {
    assert.ok(hasCode(error, "listen-failed"));
    assert.equal(error.message, `cannot listen on 127.0.0.1 port ${port}`);
    assert.match(String(error.cause), /EADDRINUSE/);
    return true;
  });
});

type ListenOptions = [port: number, host: string, backlog: number, listening: () => void];

/** A server that fails to bind one address, as on a host that lacks the address. */
function lacking(address: string, code: string): { server: Server; tried: string[] } {
  const server = createServer();
  const tried: string[] = [];
  const real = server.listen.bind(server) as (...options: ListenOptions) => Server;
  const fake = (...options: ListenOptions) => {
    const [, host] = options;
    tried.push(host);
    if (host !== address) return real(...options);
    process.nextTick(() => server.emit("error", Object.assign(new Error(`listen ${code}`), { code })));
    return server;
  };
  server.listen = fake as typeof server.listen;
  return { server, tried };
}

for (const code of ["EAFNOSUPPORT", "EADDRNOTAVAIL"]) {
  test(`without IPv6 (${code}) :: means all IPv4 addresses`, async (t) => {
    const { server, tried } = lacking("::", code);
    await listen(server, 0, "::");
    t.after(() => server.close());
    assert.deepEqual(tried, ["::", "0.0.0.0"]);
    assert.equal(server.listening, true);
    assert.equal(server.listenerCount("error"), 0);
  });
}

test("liveness fails when a watch is inactive for more than three minutes, not before", () => {
  assert.deepEqual(livenessOf(180_000), { ok: true, text: "ok" });
  assert.equal(livenessOf(180_001).ok, false);
  assert.deepEqual(livenessOf(181_400), { ok: false, text: "a watch has been inactive for 181 s" });
});
