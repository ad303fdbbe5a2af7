import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Config, configSchema } from "../../config/schema.ts";
import { silentLogger } from "../../telemetry/log.ts";
import { type FakeCall, fakeApi, json, refuse, until } from "../../test/fakes/kube-api.ts";
import type { RoutingHints } from "../sources/types.ts";
import { TargetDiscovery } from "./discovery.ts";
import { foundName } from "./service-view.ts";

interface Parts {
  readonly annotations?: Record<string, string>;
  readonly ip?: string;
  readonly port?: number;
}

/** A cluster's Services, which the test changes; all of them are LoadBalancers, but for the one of the default target. */
async function cluster(t: TestContext, config: Config) {
  const services = new Map<string, object>();
  const watchers = new Set<FakeCall>();
  /** The n-th brought version n + 1. */
  const events: { readonly type: string; readonly key: string; readonly object: object }[] = [];
  let version = 1;
  let refused = false;
  const belongs = ({ path, query }: FakeCall, key: string) => {
    const [namespace, name] = key.split("/");
    if (path === "/api/v1/services")
      return query.get("fieldSelector") === "spec.type=LoadBalancer" && !key.startsWith("ingress-nginx/");
    return (
      path === `/api/v1/namespaces/${namespace}/services` && query.get("fieldSelector") === `metadata.name=${name}`
    );
  };
  const api = await fakeApi((call) => {
    if (call.query.get("watch") === "true") {
      call.response.writeHead(200);
      call.response.flushHeaders();
      // As the real one does: what happened since the list comes first.
      for (const event of events.slice(Number(call.query.get("resourceVersion")) - 1)) tell(call, event);
      watchers.add(call);
      return;
    }
    if (refused) return refuse(403, "Forbidden")(call);
    const items = [...services].filter(([key]) => belongs(call, key)).map(([, item]) => item);
    return json({ kind: "List", metadata: { resourceVersion: String(version) }, items })(call);
  });
  const tell = (call: FakeCall, { type, key, object }: (typeof events)[number]) => {
    if (belongs(call, key)) call.response.write(`${JSON.stringify({ type, object })}\n`);
  };
  const send = (type: string, key: string, object: object) => {
    events.push({ type, key, object });
    for (const call of watchers) tell(call, { type, key, object });
  };
  const set = (key: string, { annotations = {}, ip, port = 443 }: Parts = {}) => {
    version += 1;
    const [namespace, name] = key.split("/");
    const ingress = ip === undefined ? [] : [{ ip }];
    const object = {
      metadata: { namespace, name, uid: key, resourceVersion: String(version), annotations },
      spec: { clusterIPs: ["10.96.0.7"], ports: [{ port }] },
      status: { loadBalancer: { ingress } },
    };
    const type = services.has(key) ? "MODIFIED" : "ADDED";
    services.set(key, object);
    send(type, key, object);
  };
  const remove = (key: string) => {
    version += 1;
    const object = services.get(key) as { metadata: object };
    services.delete(key);
    send("DELETED", key, { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } });
  };
  const discovery = new TargetDiscovery({ client: api.client, config, log: silentLogger });
  const heard = { changes: 0, synced: 0 };
  const start = () =>
    discovery.start(
      () => {
        heard.changes += 1;
      },
      () => {
        heard.synced += 1;
      },
    );
  t.after(async () => {
    await discovery.stop();
    await api.close();
  });
  const resolve = (hints: RoutingHints): string => {
    const target = discovery.resolve(hints);
    return typeof target === "string" ? target : target.code;
  };
  const becomes = (hints: RoutingHints, expected: string) =>
    until(() => resolve(hints) === expected, `${expected}, not ${resolve(hints)}`);
  const synced = async () => {
    start();
    await until(() => heard.synced === 1, "the first full view");
  };
  const refuseLists = (value: boolean) => {
    refused = value;
  };
  return { discovery, set, remove, heard, start, synced, resolve, becomes, refuseLists };
}

const hints = (className: string | undefined, ...addresses: string[]): RoutingHints => ({
  className,
  addresses,
  admitted: addresses.length > 0,
});
const NGINX = "ingress-nginx/ingress-nginx-controller";
const EDGE = foundName("edge", "lb");
const byClass = (name: string) => ({
  name,
  classes: [name],
  upstream: { service: { namespace: "edge", name: `${name}-lb` } },
});

test("an address leads to the Service that has it, and follows it", async (t) => {
  const { set, remove, synced, becomes, discovery, heard } = await cluster(t, configSchema.parse({ targets: [] }));
  set("edge/lb", { ip: "203.0.113.9" });
  await synced();
  await becomes(hints("any", "203.0.113.9"), EDGE);
  assert.deepEqual(discovery.found(EDGE)?.upstream, { service: { namespace: "edge", name: "lb" } });
  set("edge/lb", { ip: "203.0.113.10", port: 8443 });
  await becomes(hints("any", "203.0.113.10"), EDGE);
  await becomes(hints("any", "203.0.113.9"), "no-service");
  assert.equal(discovery.found(EDGE)?.ports[0]?.port, 8443);
  const before = heard.changes;
  remove("edge/lb");
  await becomes(hints("any", "203.0.113.10"), "no-service");
  assert.equal(discovery.found(EDGE), undefined);
  await until(() => heard.changes > before, "the change to be told");
});

test("not synced until the Services were listed: that there are none must be seen", async (t) => {
  const { start, heard, refuseLists, discovery } = await cluster(t, configSchema.parse({ targets: [] }));
  refuseLists(true);
  start();
  await until(() => discovery.state()[0]?.problems.length === 1, "the refusal to be told");
  assert.deepEqual([discovery.state()[0]?.synced, heard.synced], [false, 0]);
  refuseLists(false);
  await until(() => heard.synced === 1, "the first full view");
});

test("a configured target wins by its class, and where a found Service is its upstream", async (t) => {
  const config = configSchema.parse({ targets: [byClass("one"), byClass("two")] });
  const { set, synced, becomes, resolve } = await cluster(t, config);
  set("edge/lb", { ip: "203.0.113.9" });
  set("edge/two-lb", { ip: "203.0.113.2" });
  await synced();
  await becomes(hints("one", "203.0.113.9"), "one");
  assert.equal(resolve(hints("other", "203.0.113.2")), "two");
  assert.equal(resolve(hints("other", "203.0.113.9")), EDGE);
  assert.equal(resolve(hints("other")), "no-target");
  assert.equal(resolve(hints(undefined)), "no-class");
});

test("the target without classes stands in where no address tells, if its Service is there", async (t) => {
  const { set, remove, synced, becomes, discovery } = await cluster(t, configSchema.parse({}));
  await synced();
  await becomes(hints("nginx"), "target-missing");
  assert.deepEqual(discovery.configured(), []);
  set(NGINX);
  await becomes(hints("nginx"), "ingress-nginx");
  await becomes(hints("nginx", "198.51.100.77"), "ingress-nginx");
  assert.equal(discovery.configured().length, 1);
  remove(NGINX);
  await becomes(hints("nginx"), "target-missing");
});

test("it stands in no longer once a found target is in use: then it would be a guess", async (t) => {
  const { set, synced, becomes, discovery, heard } = await cluster(t, configSchema.parse({}));
  set(NGINX);
  set("edge/lb", { ip: "203.0.113.9" });
  await synced();
  await becomes(hints("nginx"), "ingress-nginx");
  const before = heard.changes;
  discovery.use(new Set(["ingress-nginx", EDGE]));
  await until(() => heard.changes > before, "the change to be told");
  await becomes(hints("nginx"), "no-address");
  discovery.use(new Set(["ingress-nginx"]));
  await becomes(hints("nginx"), "ingress-nginx");
});

test("what has a host name or ipMode Proxy is not for the target without classes: there is nothing to cure", async (t) => {
  const { set, synced, resolve, becomes } = await cluster(t, configSchema.parse({}));
  set(NGINX);
  await synced();
  await becomes(hints("nginx"), "ingress-nginx");
  assert.equal(resolve(hints("nginx", "lb.example.net")), "load-balancer-hostname");
});

test("a wrong annotation keeps what was right before, and is told; a right one clears it", async (t) => {
  const { set, synced, becomes, discovery } = await cluster(t, configSchema.parse({ targets: [] }));
  const key = "switchback.dev/proxy-protocol";
  const here = hints("any", "203.0.113.9");
  set("edge/lb", { ip: "203.0.113.9", annotations: { [key]: "v2" } });
  await synced();
  await becomes(here, EDGE);
  set("edge/lb", { ip: "203.0.113.9", annotations: { [key]: "v9" } });
  await until(() => discovery.state()[0]?.problems.length === 1, "the problem to be told");
  assert.equal(discovery.state()[0]?.problems[0]?.place, "Service edge/lb");
  await becomes(here, EDGE);
  assert.equal(discovery.found(EDGE)?.ports[0]?.protocol, "v2");
  set("edge/lb", { ip: "203.0.113.9", annotations: { [key]: "v1" } });
  await until(() => discovery.found(EDGE)?.ports[0]?.protocol === "v1", "the new version");
  assert.deepEqual(discovery.state()[0]?.problems, []);
});
