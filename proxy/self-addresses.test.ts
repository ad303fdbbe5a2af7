import assert from "node:assert/strict";
import { test } from "node:test";
import { type Config, configSchema } from "../config/schema.ts";
import { FakeClock, LineLog } from "../test/fakes/clock.ts";
import { frontServices, SelfAddresses } from "./self-addresses.ts";

const SERVICE = { service: { namespace: "ingress", name: "controller" } };
const HOST = { host: "192.0.2.1" };

function configOf(...targets: object[]): Config {
  return configSchema.parse({ targets });
}

test("a front Service is looked up by the name that the controller gives it", () => {
  const [front] = frontServices(configOf({ name: "web", upstream: SERVICE }), undefined);
  assert.deepEqual(front, { host: "switchback-web.switchback-system.svc", addresses: [], ports: [80, 443] });
  const [qualified] = frontServices(configOf({ name: "web", upstream: SERVICE }), "cozy.local");
  assert.equal(qualified?.host, "switchback-web.switchback-system.svc.cozy.local.");
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
  const lookup = async (host: string): Promise<string[]> => {
    if (host === "front.test") return ["10.96.0.9", "fd00::9"];
    throw Object.assign(new Error(host), { code: "ENOTFOUND" });
  };
  const fronts = new SelfAddresses(services, {
    lookup,
    clock: new FakeClock(),
    log,
    intervalMs: 1000,
    onChange: () => {},
  });
  await fronts.firstLookup;
  assert.deepEqual(
    fronts.endpoints().map(({ address, port }) => `${address} ${port}`),
    ["10.96.0.9 80", "10.96.0.9 443", "fd00::9 80", "fd00::9 443", "10.96.0.7 443"],
  );
  assert.deepEqual(log.lines, []);
  fronts.stop();
});
