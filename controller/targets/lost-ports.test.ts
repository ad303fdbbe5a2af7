import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Reason } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import { TargetDiscovery } from "./discovery.ts";
import { findTarget } from "./find-target.ts";

// A mapped name has only the ports of its target. Pods lose anything else that answers at its public address.

const IP = "203.0.113.7";
const SERVICES = "/api/v1/services";

function service(name: string, ports: readonly number[], ipMode = "VIP", clusterIPs = ["10.0.0.1"]) {
  return {
    metadata: { namespace: "edge", name, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { type: "LoadBalancer", clusterIPs, ports: ports.map((port) => ({ port })) },
    status: { loadBalancer: { ingress: [{ ip: IP, ipMode }] } },
  };
}

/** An Ingress at the address, or a Gateway if `ports` is set. `warning` returns the warning of its name. */
async function cluster(t: TestContext, config: object, ports?: readonly number[]) {
  stopTime(t);
  const api = new MemoryKube();
  const parsed = parseConfig({ targets: [], ...config });
  const discovery = new TargetDiscovery({ client: api.client, config: parsed, log: silentLogger });
  t.after(() => discovery.stop());
  const hints = { className: "nginx", addresses: [IP], admitted: true, ...(ports && { ports }) };
  let changes = 0;
  const find = () => findTarget(hints, undefined, { resolver: discovery, config: parsed });
  return {
    start: async (...services: object[]) => {
      for (const one of services) api.set(SERVICES, one as never);
      discovery.start(
        () => {
          changes += 1;
        },
        () => {},
      );
      await settled();
      find();
    },
    set: async (one: object) => {
      const before = changes;
      api.set(SERVICES, one as never);
      t.mock.timers.tick(100);
      await settled();
      assert.ok(changes > before, "its objects are resolved again");
    },
    warning(): Reason | undefined {
      const { target, warning } = find();
      assert.equal(typeof target, "string");
      return warning;
    },
  };
}

test("a name has a warning if its target lacks port 80, until a Service has that port at its address", async (t) => {
  const rig = await cluster(t, {});
  // The provider's load balancer redirects port 80, but kube-proxy leads pods past it.
  await rig.start(service("nginx", [443]), service("redirect", [80], "Proxy", ["10.0.0.2"]));
  assert.equal(rig.warning()?.code, "port-lost");
  assert.match(rig.warning()?.text ?? "", /edge-nginx-\w+ has no port 80: pods lose what answers there/);
  await rig.set(service("redirect", [80], "VIP", ["10.0.0.2"]));
  assert.equal(rig.warning(), undefined);
  await rig.set(service("redirect", [8080], "VIP", ["10.0.0.2"]));
  assert.equal(rig.warning()?.code, "port-lost");
});

test("a Gateway can lose only ports of its listeners", async (t) => {
  const secure = await cluster(t, {}, [443]);
  await secure.start(service("nginx", [443]));
  assert.equal(secure.warning(), undefined);
});

test("a Gateway with listeners on both ports loses the one that its target lacks, and no other port", async (t) => {
  const both = await cluster(t, {}, [80, 443, 8443]);
  await both.start(service("nginx", [80]));
  assert.match(both.warning()?.text ?? "", /has no port 443:/);
});

test("a configured target lacks a port if its configuration or its Service does not have it", async (t) => {
  const upstream = { service: { namespace: "edge", name: "nginx" } };
  const rig = await cluster(t, { targets: [{ name: "web", upstream, classes: ["nginx"] }] });
  await rig.start(service("nginx", [80, 443]));
  assert.equal(rig.warning(), undefined);
  await rig.set(service("nginx", [80]));
  assert.match(rig.warning()?.text ?? "", /target web has no port 443:/);
  const only = { name: "web", classes: ["nginx"], ports: [{ port: 443, protocol: "v1" }] };
  const config = parseConfig({ targets: [{ ...only, upstream: { host: "lb.example.net" } }] });
  const outside = new TargetDiscovery({ config, log: silentLogger });
  assert.match(outside.warningOf?.("web")?.text ?? "", /has no port 80:/);
  assert.equal(outside.warningOf?.("web", [443]), undefined);
});

test("a configured target without a relay has the ports of its Service", async (t) => {
  const upstream = { service: { namespace: "edge", name: "nginx" } };
  const direct = { name: "web", upstream, classes: ["nginx"], ports: [{ port: 443, protocol: "none" }] };
  const rig = await cluster(t, { targets: [direct] });
  await rig.start(service("nginx", [80, 443]));
  assert.equal(rig.warning(), undefined);
  await rig.set(service("nginx", [443]));
  assert.match(rig.warning()?.text ?? "", /target web has no port 80:/);
});
