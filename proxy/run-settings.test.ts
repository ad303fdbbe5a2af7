import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { FakeClock, LineLog } from "#test/fakes/clock.ts";
import { FakeEngine } from "#test/fakes/fake-engine.ts";
import { until } from "#test/fakes/kube-api.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { freePort } from "./conformance/rig.ts";
import { clampToFileLimit, readProcessLimits } from "./engine-limits.ts";
import { type ProxyDeps, runProxy } from "./run.ts";

const WEB = {
  name: "web",
  classes: ["nginx"],
  upstream: { service: { namespace: "ingress", name: "nginx" } },
  ports: [
    { port: 443, listenPort: 15_443, upstreamPort: 8443, protocol: "v2" },
    { port: 80, listenPort: 15_080, upstreamPort: 8080 },
  ],
};
const GIVEN = {
  name: "given",
  classes: ["other"],
  upstream: { host: "192.0.2.9" },
  clusterIPs: ["10.96.0.7"],
  ports: [{ port: 443, listenPort: 16_443 }],
};

/** A proxy on a fake engine and clock. All names resolve to one address. */
function start(
  t: TestContext,
  proxy: object,
  { targets = [WEB, GIVEN], ...deps }: Partial<ProxyDeps> & { targets?: object[] } = {},
) {
  const [engine, clock, log] = [new FakeEngine(), new FakeClock(), new LineLog()];
  const asked: string[] = [];
  const lookup = async (host: string) => {
    asked.push(host);
    return ["192.0.2.1"];
  };
  const config = parseConfig({
    namespace: "own",
    targets,
    clusterDomain: "cozy.local",
    proxy: { address: "127.0.0.1", healthPort: 0, ...proxy },
  });
  const running = runProxy(config, {
    log,
    lookup,
    clock,
    makeEngine: (options) => {
      engine.options = options;
      return engine;
    },
    ...deps,
  });
  t.after(async () => {
    engine.drained.resolve({ finished: 0, reset: 0 });
    await (await running).stop();
  });
  return { engine, clock, log, asked, running };
}

test("the engine's limits are the config's, in milliseconds", async (t) => {
  const { engine, running } = start(t, {
    maxConnections: 100,
    maxConnectionsPerSource: 7,
    idleTimeoutSeconds: 40,
    drainSeconds: 6,
  });
  await running;
  assert.deepEqual(engine.options?.limits, {
    maxConnections: 100,
    maxConnectionsPerSource: 7,
    connectTimeoutMs: 5_000,
    idleTimeoutMs: 40_000,
    halfClosedMs: 60_000,
    keepaliveMs: 60_000,
    firstBytesMs: 50,
    dropGraceMs: 6_000,
  });
});

test("the engine's spec: each port with its upstream, and the addresses of this proxy", async (t) => {
  const { engine, running, asked } = start(
    t,
    { v2Checksum: true, v2UniqueId: false },
    { interfaceAddresses: ["10.0.0.7"] },
  );
  await running;
  const shared = { address: "127.0.0.1", refusesClientHeaders: false, tlvs: { crc32c: true, uniqueId: false } };
  const addresses = ["192.0.2.1"];
  const spec = {
    listeners: [
      {
        ...shared,
        name: "web:443",
        target: "web",
        port: 15_443,
        declaredPort: 443,
        protocol: "v2",
        upstream: { addresses, port: 8443 },
      },
      {
        ...shared,
        name: "web:80",
        target: "web",
        port: 15_080,
        declaredPort: 80,
        protocol: "v1",
        upstream: { addresses, port: 8080 },
      },
      {
        ...shared,
        name: "given:443",
        target: "given",
        port: 16_443,
        declaredPort: 443,
        protocol: "v1",
        upstream: { addresses: ["192.0.2.9"], port: 443 },
      },
    ],
    self: {
      interfaceAddresses: ["10.0.0.7"],
      frontEndpoints: [
        { address: "192.0.2.1", port: 443 },
        { address: "192.0.2.1", port: 80 },
        { address: "10.96.0.7", port: 443 },
      ],
    },
  };
  assert.deepEqual(engine.plans, [spec, spec]);
  assert.deepEqual(engine.calls, ["start", "update"], "an address that is found before the start is no change");
  assert.deepEqual(asked.sort(), ["nginx.ingress.svc.cozy.local.", "switchback-web.own.svc.cozy.local."]);
});

test("names are looked up every 30 s, in the given cluster domain", async (t) => {
  const { running, asked, clock } = start(t, {}, { targets: [WEB], clusterDomain: "other.local" });
  await running;
  const first = asked.splice(0).sort();
  assert.deepEqual(first, ["nginx.ingress.svc.other.local.", "switchback-web.own.svc.other.local."]);
  await clock.pass(29_999);
  assert.deepEqual(asked, []);
  await clock.pass(1);
  assert.deepEqual(asked.sort(), first);
});

test("by default, the proxy's addresses are those of the machine's network interfaces", async (t) => {
  const { engine, running } = start(t, {});
  await running;
  const own = Object.values(networkInterfaces()).flatMap((entries) => entries?.map(({ address }) => address) ?? []);
  assert.deepEqual(engine.plans[0]?.self.interfaceAddresses, own);
  assert.ok(own.length > 0);
});

test("the connection limit is lowered to what the process's file limit allows, and this is logged", async (t) => {
  const wanted = 1_000_000_000;
  const { engine, running, log } = start(t, { maxConnections: wanted, maxConnectionsPerSource: 1 });
  const { healthPort } = await running;
  const maxConnections = clampToFileLimit(wanted, readProcessLimits());
  assert.ok(maxConnections < wanted, "the test needs a limit");
  assert.equal(engine.options?.limits.maxConnections, maxConnections);
  assert.deepEqual(
    log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields),
    [{ maxConnections, wanted }],
  );
  const metrics = await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text();
  assert.match(metrics, new RegExp(`^switchback_proxy_connections_limit ${maxConnections}$`, "m"));
});

test("each listener is logged with its port; a proxy without listeners logs a warning", async (t) => {
  const some = start(t, { maxConnections: 10, maxConnectionsPerSource: 1 });
  const { ports } = await some.running;
  assert.deepEqual(
    some.log.lines,
    [
      { listener: "web:443", address: "127.0.0.1", port: 15_443 },
      { listener: "web:80", address: "127.0.0.1", port: 15_080 },
      { listener: "given:443", address: "127.0.0.1", port: 16_443 },
    ].map((fields) => ({ level: "info", fields, message: "listening" })),
  );
  assert.deepEqual(ports, [15_443, 15_080, 16_443]);
  const none = start(t, { maxConnections: 10, maxConnectionsPerSource: 1 }, { targets: [] });
  await none.running;
  assert.deepEqual(
    none.log.lines.map(({ level }) => level),
    ["warn"],
  );
});

test("until the engine has started the proxy is alive, not ready, and lists no target", async (t) => {
  const healthPort = await freePort();
  const { engine, running } = start(t, { healthPort });
  const starting = Promise.withResolvers<void>();
  engine.startsAfter = starting.promise;
  while (engine.calls.length === 0) await settled();
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${healthPort}${path}`);
    return [response.status, (await response.text()).split("\n")[0]];
  };
  assert.deepEqual(await get("/healthz"), [200, "ok"]);
  assert.deepEqual(await get("/readyz"), [503, "[-] starting"]);
  assert.deepEqual(await get("/targets"), [200, '{"listening":[],"answers":[]}']);
  starting.resolve();
  await running;
  assert.deepEqual((await get("/readyz"))[0], 200);
  // The page rests for a while after it was rendered.
  const listed = async () => (await get("/targets"))[1] === '{"listening":["given","web"],"answers":[]}';
  await until(listed, "the page to list the targets");
});

test("a dial report updates the upstream's state, and a drain updates the metrics", async (t) => {
  const { engine, running } = start(t, {});
  const proxy = await running;
  const text = async (path: string) => await (await fetch(`http://127.0.0.1:${proxy.healthPort}${path}`)).text();
  engine.options?.onDial({ listener: "web:80", connected: true, failures: [] });
  assert.match(await text("/readyz"), /^\[i\] upstream web:80: ok since /m);
  assert.match(await text("/metrics"), /^switchback_proxy_draining 0$/m);
  void proxy.stop();
  // The page rests for a while after it was rendered.
  await until(async () => /^switchback_proxy_draining 1$/m.test(await text("/metrics")), "the page to show the drain");
});
