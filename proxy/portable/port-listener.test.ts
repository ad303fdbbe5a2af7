import assert from "node:assert/strict";
import { once } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import net, { type Server } from "node:net";
import { type TestContext, test } from "node:test";
import { hasCode } from "#lib/errors/errors.ts";
import type { ListenerSpec } from "../engine.ts";
import { PortListener } from "./port-listener.ts";

const SPEC: ListenerSpec = {
  name: "web:443",
  target: "web",
  address: "127.0.0.1",
  port: 0,
  declaredPort: 443,
  protocol: "v1",
  upstream: { addresses: [], port: 443 },
};

/** A listener whose server fails to bind these addresses with an errno; `tried` are the options of each attempt. */
function start(t: TestContext, { spec = SPEC, keepaliveMs = 0, lacking = {} as Record<string, string> } = {}) {
  const tried: object[] = [];
  const create = net.createServer as (options: object) => Server;
  const made: { server: Server; options: object }[] = [];
  t.mock.method(net, "createServer", (options: object) => {
    const server = create(options);
    const listen = server.listen.bind(server) as (options: object) => Server;
    server.listen = ((wanted: { host: string }) => {
      tried.push(wanted);
      const code = lacking[wanted.host];
      if (code === undefined) return listen(wanted);
      process.nextTick(() => server.emit("error", Object.assign(new Error(`listen ${code}`), { code })));
      return server;
    }) as Server["listen"];
    made.push({ server, options });
    return server;
  });
  syncBuiltinESMExports();
  const clients: unknown[] = [];
  const listener = new PortListener(spec, keepaliveMs, (client, from) => clients.push([client, from]));
  t.mock.restoreAll();
  syncBuiltinESMExports();
  const errors: Error[] = [];
  t.after(() => listener.close());
  const { server, options } = made[0] ?? assert.fail();
  return {
    listener,
    clients,
    errors,
    server,
    options,
    tried,
    bind: () => listener.bind((error) => errors.push(error)),
  };
}

test("client sockets allow half-open connections, have no delay and have keepalive, unless it is off", (t) => {
  const shared = { allowHalfOpen: true, noDelay: true };
  const on = start(t, { keepaliveMs: 1 }).options;
  assert.deepEqual(on, { ...shared, keepAlive: true, keepAliveInitialDelay: 1 });
  assert.deepEqual(start(t).options, { ...shared, keepAlive: false, keepAliveInitialDelay: 0 });
});

test("a listener has the port that the kernel chose, and passes its clients on", async (t) => {
  const { listener, clients, errors, server, tried, bind } = start(t);
  const named = { name: "web:443", target: "web", address: "127.0.0.1" };
  assert.deepEqual(listener.status(), { ...named, port: 0, bound: false, error: "not bound yet" });
  assert.equal(listener.lastConnected, false);
  await bind();
  const { port } = listener.status();
  assert.deepEqual([listener.status(), port > 0], [{ ...named, port, bound: true }, true]);
  assert.deepEqual(tried, [{ host: "127.0.0.1", port: 0, backlog: 4096 }]);
  const arrived = once(server, "connection");
  const socket = net.connect(port, "127.0.0.1");
  const [client] = await arrived;
  assert.deepEqual(clients, [[client, listener]]);
  for (const one of [socket, client]) one.destroy();
  const trouble = new Error("accept EMFILE");
  server.emit("error", trouble);
  assert.deepEqual(errors, [trouble]);
});

test("a closed listener is unbound", async (t) => {
  const { listener, server, bind } = start(t);
  await bind();
  listener.close();
  assert.deepEqual([listener.status().bound, listener.status().error, server.listening], [false, "closed", false]);
});

test("a listener that cannot be bound reports the reason in its status and in the error", async (t) => {
  const { listener, bind } = start(t, { lacking: { "127.0.0.1": "EADDRINUSE" } });
  await assert.rejects(bind(), (error: Error) => {
    assert.equal(error.message, "cannot bind web:443 to 127.0.0.1 port 0");
    assert.match(String(error.cause), /EADDRINUSE/);
    return hasCode(error, "listen-failed");
  });
  assert.deepEqual([listener.status().bound, listener.status().error], [false, "listen EADDRINUSE"]);
});

for (const [address, code, isFallback] of [
  ["::", "EAFNOSUPPORT", true],
  ["::", "EADDRNOTAVAIL", true],
  ["::", "EACCES", false],
  ["::1", "EADDRNOTAVAIL", false],
] as const) {
  test(`binding ${address} with error ${code} ${isFallback ? "means all IPv4 addresses" : "fails"}`, async (t) => {
    const { listener, server, tried, bind } = start(t, { spec: { ...SPEC, address }, lacking: { [address]: code } });
    const hosts = () => tried.map((options) => (options as { host: string }).host);
    if (!isFallback) {
      await assert.rejects(bind(), { code: "listen-failed" });
      assert.deepEqual(hosts(), [address]);
      return;
    }
    await bind();
    assert.deepEqual([hosts(), listener.status().address], [["::", "0.0.0.0"], "0.0.0.0"]);
    assert.equal(server.listenerCount("listening"), 0);
  });
}
