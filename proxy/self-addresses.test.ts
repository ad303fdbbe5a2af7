import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { FakeClock, LineLog } from "#test/fakes/clock.ts";
import { frontServices, publishedFrontServices, SelfAddresses } from "./self-addresses.ts";

const SERVICE = { service: { namespace: "ingress", name: "controller" } };
const HOST = { host: "192.0.2.1" };

function configOf(...targets: object[]): Config {
  return parseConfig({ targets });
}

test("a front Service is looked up by the name that the controller gives it", () => {
  const [front] = frontServices(configOf({ name: "web", upstream: SERVICE }), undefined);
  assert.deepEqual(front, { host: "switchback-web.switchback-system.svc", addresses: [], ports: [80, 443] });
  for (const domain of ["cozy.local", "cozy.local."]) {
    const [qualified] = frontServices(configOf({ name: "web", upstream: SERVICE }), domain);
    assert.equal(qualified?.host, "switchback-web.switchback-system.svc.cozy.local.");
  }
});

test("addresses from the config need no lookup, and without a Service among the upstreams there is no lookup", () => {
  const given = frontServices(configOf({ name: "web", upstream: SERVICE, clusterIPs: ["10.96.0.9"] }), undefined);
  assert.deepEqual(given, [{ host: undefined, addresses: ["10.96.0.9"], ports: [80, 443] }]);
  assert.equal(frontServices(configOf({ name: "web", upstream: HOST }), undefined)[0]?.host, undefined);
});

test("a target without a relay has no front Service", () => {
  const direct = { name: "web", upstream: SERVICE, ports: [{ port: 443, protocol: "none" }] };
  assert.deepEqual(frontServices(configOf(direct), undefined), []);
});

test("each resolved address is combined with each port, and names that do not resolve are not logged", async () => {
  const log = new LineLog();
  const services = [
    { host: "front.test", addresses: [], ports: [80, 443] },
    { host: "missing.test", addresses: [], ports: [80] },
    { host: undefined, addresses: ["10.96.0.7"], ports: [443] },
  ];
  const asked: string[] = [];
  const clock = new FakeClock();
  const lookup = async (host: string): Promise<string[]> => {
    asked.push(host);
    if (host === "front.test") return ["10.96.0.9", "fd00::9"];
    throw Object.assign(new Error(host), { code: "ENOTFOUND" });
  };
  const fronts = new SelfAddresses(services, {
    lookup,
    clock,
    log,
    intervalMs: 1000,
  });
  await fronts.firstLookup;
  assert.deepEqual(
    fronts.endpoints().map(({ address, port }) => `${address} ${port}`),
    ["10.96.0.9 80", "10.96.0.9 443", "fd00::9 80", "fd00::9 443", "10.96.0.7 443"],
  );
  assert.deepEqual([asked, log.lines], [["front.test", "missing.test"], []]);
  fronts.stop();
  assert.equal(clock.pending, 0);
});

test("published front Services replace the ones that were looked up", async () => {
  const clock = new FakeClock();
  const lookup = async () => ["10.96.0.9"];
  const options = { lookup, clock, log: new LineLog(), intervalMs: 1000 };
  const fronts = new SelfAddresses([{ host: "front.test", addresses: [], ports: [80] }], options);
  await fronts.firstLookup;
  const ports = [80, 443].map((port) => ({ port, listenPort: 1, upstreamPort: 2, protocol: "v1" as const }));
  const targets = [{ name: "web", upstream: "ingress.test", ports, clusterIPs: ["10.96.0.7", "fd00::7"] }];
  fronts.replace(publishedFrontServices({ targets }));
  assert.equal(clock.pending, 0, "the names are not looked up any more");
  assert.deepEqual(fronts.endpoints(), [
    { address: "10.96.0.7", port: 80 },
    { address: "10.96.0.7", port: 443 },
    { address: "fd00::7", port: 80 },
    { address: "fd00::7", port: 443 },
  ]);
});
