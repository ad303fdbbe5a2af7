import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import type { RoutingHints } from "../sources/types.ts";
import { TargetDiscovery } from "./discovery.ts";
import { foundName } from "./service-view.ts";

const BALANCERS = "/api/v1/services";
const NGINX = "ingress-nginx/ingress-nginx-controller";
/** Delay after which Services that change together are evaluated together. */
const SETTLE_MS = 20;

interface Parts {
  readonly annotations?: Record<string, string>;
  readonly ip?: string;
  readonly hostname?: string;
  readonly port?: number;
}

/** The Services of a cluster, which the test changes. All are of type LoadBalancer. */
function cluster(t: TestContext, config: Config) {
  const pass = stopTime(t);
  const api = new MemoryKube();
  const set = (key: string, { annotations = {}, ip, hostname, port = 443 }: Parts = {}) => {
    const [namespace, name] = key.split("/");
    const ingress = ip === undefined && hostname === undefined ? [] : [{ ip, hostname }];
    api.set(BALANCERS, {
      metadata: { namespace, name, annotations },
      spec: { type: "LoadBalancer", clusterIPs: ["10.96.0.7"], ports: [{ port }] },
      status: { loadBalancer: { ingress } },
    } as ApiObject);
  };
  const remove = (key: string) => api.unset(BALANCERS, key);
  const discovery = new TargetDiscovery({ client: api.client, config, log: silentLogger });
  const calls = { changes: 0, synced: 0 };
  const start = () =>
    discovery.start(
      () => {
        calls.changes += 1;
      },
      () => {
        calls.synced += 1;
      },
    );
  t.after(() => discovery.stop());
  const resolve = (hints: RoutingHints): string => {
    const target = discovery.resolve(hints);
    return typeof target === "string" ? target : target.code;
  };
  const becomes = async (hints: RoutingHints, expected: string) => {
    await settled();
    assert.equal(resolve(hints), expected);
  };
  const synced = async () => {
    start();
    await settled();
    assert.equal(calls.synced, 1);
    // Wait until the changes from the first lists are reported.
    await pass(SETTLE_MS);
  };
  return { api, pass, discovery, set, remove, calls, start, synced, resolve, becomes };
}

const hints = (className: string | undefined, ...addresses: string[]): RoutingHints => ({
  className,
  addresses,
  admitted: addresses.length > 0,
});
const EDGE = foundName("edge", "lb");
const byClass = (name: string) => ({
  name,
  classes: [name],
  upstream: { service: { namespace: "edge", name: `${name}-lb` } },
});

test("an address resolves to the Service that has it, also after changes", async (t) => {
  const { pass, set, remove, synced, becomes, discovery, calls } = cluster(t, parseConfig({ targets: [] }));
  set("edge/lb", { ip: "203.0.113.9" });
  await synced();
  await becomes(hints("any", "203.0.113.9"), EDGE);
  assert.deepEqual(discovery.found(EDGE)?.upstream, { service: { namespace: "edge", name: "lb" } });
  set("edge/lb", { ip: "203.0.113.10", port: 80 });
  await becomes(hints("any", "203.0.113.10"), EDGE);
  await becomes(hints("any", "203.0.113.9"), "no-service");
  assert.equal(discovery.found(EDGE)?.ports[0]?.port, 80);
  await pass(SETTLE_MS);
  const before = calls.changes;
  remove("edge/lb");
  await becomes(hints("any", "203.0.113.10"), "no-service");
  assert.equal(discovery.found(EDGE), undefined);
  await pass(SETTLE_MS);
  assert.equal(calls.changes, before + 1);
});

test("discovery is not synced before the Services were listed, even if there are none", async (t) => {
  const { api, pass, start, calls, discovery } = cluster(t, parseConfig({ targets: [] }));
  api.refuse(BALANCERS, 403);
  start();
  await pass(1_000);
  assert.equal(discovery.state()[0]?.problems.length, 1);
  assert.deepEqual([discovery.state()[0]?.synced, calls.synced], [false, 0]);
  api.refuse(BALANCERS, undefined);
  await pass(30_000, 100);
  assert.equal(calls.synced, 1);
});

test("a configured target wins by its class, or if the Service is its upstream", async (t) => {
  const config = parseConfig({ targets: [byClass("one"), byClass("two")] });
  const { set, synced, becomes, resolve } = cluster(t, config);
  set("edge/lb", { ip: "203.0.113.9" });
  set("edge/two-lb", { ip: "203.0.113.2" });
  await synced();
  await becomes(hints("one", "203.0.113.9"), "one");
  assert.equal(resolve(hints("other", "203.0.113.2")), "two");
  assert.equal(resolve(hints("other", "203.0.113.9")), EDGE);
  assert.equal(resolve(hints("other")), "no-target");
  assert.equal(resolve(hints(undefined)), "no-class");
});

test("the target without classes is the default for unmatched addresses, if its Service exists", async (t) => {
  const { set, remove, synced, becomes, discovery } = cluster(t, parseConfig({}));
  await synced();
  await becomes(hints("nginx"), "no-address");
  assert.deepEqual(discovery.configured(), []);
  set(NGINX);
  await becomes(hints("nginx"), "ingress-nginx");
  await becomes(hints("nginx", "198.51.100.77"), "another-controller");
  assert.equal(discovery.configured().length, 1);
  remove(NGINX);
  await becomes(hints("nginx"), "no-address");
});

test("a host name that no Service has leads to the default target, unless pods reach its load balancer", async (t) => {
  const { set, synced, becomes } = cluster(t, parseConfig({}));
  set(NGINX, { ip: "203.0.113.9" });
  await synced();
  await becomes(hints("nginx", "lb.example.net"), "ingress-nginx");
  set(NGINX, { hostname: "other.example.net" });
  await becomes(hints("nginx", "lb.example.net"), "load-balancer-hostname");
  await becomes(hints("nginx"), "load-balancer-hostname");
});

test("an invalid annotation keeps the last valid ports and is reported; a valid one clears the problem", async (t) => {
  const { set, synced, becomes, discovery } = cluster(t, parseConfig({ targets: [] }));
  const key = "switchback.dev/proxy-protocol";
  const here = hints("any", "203.0.113.9");
  set("edge/lb", { ip: "203.0.113.9", annotations: { [key]: "v2" } });
  await synced();
  await becomes(here, EDGE);
  set("edge/lb", { ip: "203.0.113.9", annotations: { [key]: "v9" } });
  assert.equal(discovery.state()[0]?.problems.length, 1);
  assert.equal(discovery.state()[0]?.problems[0]?.place, "Service edge/lb");
  await becomes(here, EDGE);
  assert.equal(discovery.found(EDGE)?.ports[0]?.protocol, "v2");
  set("edge/lb", { ip: "203.0.113.9", annotations: { [key]: "v1" } });
  assert.equal(discovery.found(EDGE)?.ports[0]?.protocol, "v1");
  assert.deepEqual(discovery.state()[0]?.problems, []);
});

test("a Service with map: always is found by its host name", async (t) => {
  const annotated = cluster(t, parseConfig({ targets: [] }));
  const [hostname, of] = ["lb.example.net", hints("any", "lb.example.net")];
  const map = (value: string) => ({ hostname, annotations: { "switchback.dev/map": value } });
  annotated.set("edge/lb", map("always"));
  await annotated.synced();
  await annotated.becomes(of, EDGE);
  annotated.set("edge/lb", map("alwyas"));
  await annotated.becomes(of, EDGE);
  assert.deepEqual(
    annotated.discovery.state().flatMap(({ problems }) => problems.map(({ place, code }) => [place, code])),
    [["Service edge/lb", "annotation-invalid"]],
  );
  annotated.set("edge/lb", map("auto"));
  await annotated.becomes(of, "load-balancer-hostname");
  annotated.set("edge/lb", map("alwyas"));
  await annotated.becomes(of, "load-balancer-hostname");
});

test("a Service can override discovery.map always", async (t) => {
  const { set, synced, becomes } = cluster(t, parseConfig({ targets: [], discovery: { map: "always" } }));
  set("edge/lb", { hostname: "lb.example.net" });
  set("edge/other", { hostname: "x.net", annotations: { "switchback.dev/map": "auto" } });
  await synced();
  await becomes(hints("any", "lb.example.net"), EDGE);
  await becomes(hints("any", "x.net"), "load-balancer-hostname");
});
