import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { fc } from "#test/property.ts";
import { frontName, isRelayed, listenersOf, portKey, upstreamHost } from "./listeners.ts";

type Port = { port: number; upstreamPort?: number; listenPort?: number; protocol?: "auto" | "v1" | "v2" | "none" };

function target(name: string, ports: readonly Port[], upstream: object = { host: "lb.example.com" }): TargetConfig {
  const classes = [name];
  const clusterIPs = ["198.51.100.9"];
  return parseConfig({ targets: [{ name, upstream, classes, ports, clusterIPs }] }).targets[0] as TargetConfig;
}

test("a target is relayed if at least one of its ports needs a header", () => {
  assert.equal(
    isRelayed(
      target("a", [
        { port: 80, protocol: "none" },
        { port: 443, protocol: "v2" },
      ]),
    ),
    true,
  );
  assert.equal(isRelayed(target("a", [{ port: 80, protocol: "none" }])), false);
});

test("a Service is looked up by its full cluster name if the domain is known", () => {
  const service = target("a", [{ port: 80 }], { service: { namespace: "ingress", name: "nginx" } });
  assert.equal(upstreamHost(service, undefined), "nginx.ingress.svc");
  assert.equal(upstreamHost(service, "cozy.local"), "nginx.ingress.svc.cozy.local.");
  assert.equal(upstreamHost(service, "cozy.local."), "nginx.ingress.svc.cozy.local.");
  assert.equal(upstreamHost(target("a", [{ port: 80 }]), "cozy.local"), "lb.example.com");
});

test("each port of each relayed target has a listener, in the config's order, and given ports are kept", () => {
  const listeners = listenersOf([
    target("one", [
      { port: 80, listenPort: 8080 },
      { port: 443, upstreamPort: 8443, protocol: "v2", listenPort: 8444 },
    ]),
    target("direct", [{ port: 80, protocol: "none" }]),
    target("two", [
      { port: 80, protocol: "none", listenPort: 8081 },
      { port: 443, listenPort: 8445 },
    ]),
  ]);
  assert.deepEqual(listeners, [
    { target: "one", port: 80, listenPort: 8080, upstream: "lb.example.com", upstreamPort: 80, protocol: "v1" },
    { target: "one", port: 443, listenPort: 8444, upstream: "lb.example.com", upstreamPort: 8443, protocol: "v2" },
    { target: "two", port: 80, listenPort: 8081, upstream: "lb.example.com", upstreamPort: 80, protocol: "none" },
    { target: "two", port: 443, listenPort: 8445, upstream: "lb.example.com", upstreamPort: 443, protocol: "v1" },
  ]);
});

test("the protocol auto is v1 until a proxy has asked", () => {
  const auto = target("a", [{ port: 443, protocol: "auto" }]);
  assert.equal(isRelayed(auto), true);
  assert.deepEqual(
    listenersOf([auto]).map(({ protocol }) => protocol),
    ["v1"],
  );
});

test("a derived port never changes: a release that changed it would cut off running pods", () => {
  const [http, https] = listenersOf([target("ingress-nginx", [{ port: 80 }, { port: 443 }])]);
  assert.deepEqual([http?.listenPort, https?.listenPort], [17_296, 22_282]);
});

const names = fc.uniqueArray(fc.stringMatching(/^[a-z]{1,10}$/), { minLength: 1, maxLength: 8 });
const configs = names.chain((all) =>
  fc.tuple(
    ...all.map((name) =>
      fc
        .uniqueArray(fc.integer({ min: 1, max: 65_535 }), { minLength: 1, maxLength: 5 })
        .map((ports) => ({ name, ports: ports.map((port) => ({ port })) })),
    ),
  ),
);

function portsOf(config: ReadonlyArray<{ name: string; ports: Port[] }>): Map<string, number> {
  const targets = config
    .filter(({ name }) => !["controller", "webhook", "proxy", "agent"].includes(name))
    .map(({ name, ports }) => target(name, ports));
  return new Map(listenersOf(targets).map(({ target: of, port, listenPort }) => [`${of}:${port}`, listenPort]));
}

test("property: derived ports are unique and in their range, and the config's order does not matter", () => {
  fc.assert(
    fc.property(configs, (config) => {
      const ports = portsOf(config);
      for (const port of ports.values()) assert.ok(port >= 15_000 && port < 25_000);
      assert.equal(new Set(ports.values()).size, ports.size);
      const reversed = config.map(({ name, ports: own }) => ({ name, ports: own.toReversed() })).toReversed();
      assert.deepEqual(new Map([...portsOf(reversed)].sort()), new Map([...ports].sort()));
    }),
  );
});

test("colliding derived ports get different numbers, also different from given ports", () => {
  const some = Array.from({ length: 200 }, (_, index) => ({ port: index + 1 }));
  const many = [target("many", some), target("more", some)];
  const free = listenersOf(many);
  assert.equal(new Set(free.map(({ listenPort }) => listenPort)).size, 400);
  const wanted = free[0]?.listenPort ?? 0;
  const given = listenersOf([target("given", [{ port: 80, listenPort: wanted }]), ...many]);
  assert.equal(new Set(given.map(({ listenPort }) => listenPort)).size, 401);
});

const portOf = (targets: readonly TargetConfig[], remembered?: ReadonlyMap<string, number>) =>
  listenersOf(targets, undefined, remembered).map(
    ({ target: of, port, listenPort }) => `${portKey(of, port)} ${listenPort}`,
  );

test("a remembered port stays, even out of range, unless the config gives it away; given ports come first", () => {
  const targets = [target("a", [{ port: 80 }, { port: 443, listenPort: 9_000 }]), target("b", [{ port: 80 }])];
  const derived = portOf([target("b", [{ port: 80 }])])[0];
  assert.deepEqual(
    portOf(
      targets,
      new Map([
        ["a:80", 8_000],
        ["a:443", 7_000],
        ["b:80", 9_000],
      ]),
    ),
    ["a:80 8000", "a:443 9000", derived],
  );
  const both = portOf(
    targets,
    new Map([
      ["a:80", 8_000],
      ["b:80", 8_000],
    ]),
  );
  assert.deepEqual(both, ["a:80 8000", "a:443 9000", derived], "the first of two that were remembered for one port");
});

test("derived ports wrap around at the end of their range", () => {
  const one = [target("a", [{ port: 80 }])];
  const first = listenersOf(one)[0]?.listenPort ?? 0;
  const taken = (from: number, to: number) =>
    ({
      ...target("taken", [{ port: 1 }]),
      ports: Array.from({ length: to - from }, (_, index) => ({
        port: index + 1,
        listenPort: from + index,
        protocol: "v1",
      })),
    }) as TargetConfig;
  const derived = (...targets: TargetConfig[]) =>
    listenersOf([...targets, ...one]).find(({ target: of }) => of === "a")?.listenPort;
  assert.equal(derived(taken(first, first + 1)), first + 1);
  assert.equal(derived(taken(first, 25_000)), 15_000);
  assert.equal(derived(taken(15_000, 24_999)), 24_999);
});

test("the name of a front Service, and the key of a port", () => {
  assert.deepEqual([frontName("edge"), portKey("edge", 80)], ["switchback-edge", "edge:80"]);
});
