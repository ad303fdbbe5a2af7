import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import type { RoutingHints } from "../sources/types.ts";
import { AddressTable } from "./address-table.ts";
import { TargetDiscovery } from "./discovery.ts";
import { matchService } from "./match-service.ts";
import { foundName, type RawService, viewService } from "./service-view.ts";

// k3s' ServiceLB gives every LoadBalancer Service the addresses of the nodes that run its `svclb-` pods, so all of
// them share addresses. The objects here are as ServiceLB writes them: k3s-io/k3s, pkg/cloudprovider/servicelb.go,
// `getStatus` and `podIPs`.

const BALANCERS = "/api/v1/services";
/** Changes of Services are evaluated together after this time. */
const SETTLE_MS = 20;
const NODES = ["192.168.1.11", "192.168.1.12", "192.168.1.13"];

interface Balancer {
  readonly created: string;
  readonly ports: readonly number[];
  /** The nodes where a port was free, or (`externalTrafficPolicy: Local`) where one of its pods runs. */
  readonly nodes?: readonly string[];
}

/** A LoadBalancer Service in k3s. */
function serviceLb(key: string, { created, ports, nodes = NODES }: Balancer): ApiObject {
  const [namespace, name] = key.split("/");
  const finalizers = ["service.kubernetes.io/load-balancer-cleanup"];
  return {
    metadata: { namespace, name, creationTimestamp: created, finalizers },
    spec: {
      type: "LoadBalancer",
      allocateLoadBalancerNodePorts: true,
      clusterIP: "10.43.7.9",
      clusterIPs: ["10.43.7.9"],
      externalTrafficPolicy: "Cluster",
      ipFamilies: ["IPv4"],
      ipFamilyPolicy: "PreferDualStack",
      ports: ports.map((port) => ({
        name: `p${port}`,
        port,
        nodePort: 30_000 + (port % 2_000),
        protocol: "TCP",
        targetPort: port,
      })),
    },
    status: { loadBalancer: { ingress: nodes.map((ip) => ({ ip, ipMode: "VIP" })) } },
  } as unknown as ApiObject;
}

const TRAEFIK = "kube-system/traefik";
const TRAEFIK_LB = serviceLb(TRAEFIK, { created: "2026-03-01T08:00:00Z", ports: [80, 443] });

/** Traefik copies the status of its Service into each Ingress. */
const INGRESS: RoutingHints = { className: "traefik", addresses: NODES, admitted: true };

async function cluster(t: TestContext, config: object, ...services: readonly ApiObject[]) {
  stopTime(t);
  const api = new MemoryKube();
  for (const service of services) api.set(BALANCERS, service);
  const discovery = new TargetDiscovery({
    client: api.client,
    config: parseConfig({ targets: [], ...config }),
    log: silentLogger,
  });
  t.after(() => discovery.stop());
  /** The targets of the published names with `INGRESS`, which are resolved again after each change. */
  const published: string[] = [];
  discovery.start(
    () => {
      for (const held of published) discovery.resolve(INGRESS, held);
    },
    () => {},
  );
  await settled();
  const resolve = (hints = INGRESS, incumbent?: string) => {
    const target = discovery.resolve(hints, incumbent);
    return typeof target === "string" ? target : target.code;
  };
  const add = async (service: ApiObject) => {
    api.set(BALANCERS, service);
    await settled();
  };
  return { discovery, resolve, add, published };
}

const nameOf = (key: string) => {
  const [namespace = "", name = ""] = key.split("/");
  return foundName(namespace, name);
};

test("a tenant's older Service on another port of the nodes takes no name from the ingress controller", async (t) => {
  const { resolve, add } = await cluster(t, {}, TRAEFIK_LB);
  assert.equal(resolve(), nameOf(TRAEFIK));
  await add(serviceLb("tenant/db", { created: "2026-02-01T08:00:00Z", ports: [5_432] }));
  await add(serviceLb("tenant/web", { created: "2026-02-01T08:00:00Z", ports: [8_443], nodes: NODES.slice(1, 2) }));
  assert.equal(resolve(), nameOf(TRAEFIK));
  const gateway = { className: "other", addresses: NODES, ports: [8_443], admitted: true };
  assert.equal(resolve(gateway), nameOf("tenant/web"), "an object on its port is served by it");
  assert.equal(
    resolve(gateway, nameOf(TRAEFIK)),
    nameOf(TRAEFIK),
    "unless the other one serves it: Traefik's Gateways",
  );
});

test("of two Services with the port, the current one stays, also after a restart; else the oldest wins", async (t) => {
  const older = serviceLb("tenant/older", { created: "2026-02-01T08:00:00Z", ports: [443] });
  // A new controller knows only which target each name has.
  const { resolve } = await cluster(t, {}, TRAEFIK_LB, older);
  assert.equal(resolve(INGRESS, nameOf(TRAEFIK)), nameOf(TRAEFIK));
  assert.equal(resolve(), nameOf("tenant/older"));
});

test("a Service that other names at the address have wins against an older one", async (t) => {
  const { resolve, add, published } = await cluster(t, {}, TRAEFIK_LB);
  published.push(nameOf(TRAEFIK));
  await add(serviceLb("tenant/older", { created: "2026-02-01T08:00:00Z", ports: [443] }));
  t.mock.timers.tick(SETTLE_MS);
  await settled();
  assert.equal(resolve(), nameOf(TRAEFIK));
});

test("a Service whose configured target lists classes serves only these classes", async (t) => {
  const upstream = { service: { namespace: "edge", name: "nginx" } };
  const nginx = serviceLb("edge/nginx", { created: "2026-02-01T08:00:00Z", ports: [443] });
  const config = { targets: [{ name: "nginx", upstream, classes: ["nginx"] }] };
  const { resolve } = await cluster(t, config, TRAEFIK_LB, nginx);
  assert.equal(resolve(), nameOf(TRAEFIK));
  assert.equal(resolve({ ...INGRESS, className: "nginx" }), "nginx");
});

// One cluster with many tenants. All Services have the addresses of all nodes, and each node port belongs to one
// Service.
test("with 5,000 Services of tenants on the nodes, names and ports go to the one with the object's port", async (t) => {
  const tenants = Array.from({ length: 5_000 }, (_, index) =>
    serviceLb(`tenant-${index % 500}/app-${index}`, { created: "2026-02-01T08:00:00Z", ports: [10_000 + index] }),
  );
  const plain = serviceLb("edge/plain", { created: "2026-04-01T08:00:00Z", ports: [80] });
  const secure = serviceLb("edge/secure", { created: "2026-03-01T08:00:00Z", ports: [443] });
  const { discovery, resolve, add } = await cluster(t, {}, ...tenants, plain, secure);
  assert.equal(resolve(), nameOf("edge/secure"));
  const portsOf = (key: string) => (discovery.found(nameOf(key))?.ports ?? []).map(({ port }) => port).sort();
  assert.deepEqual(portsOf("edge/secure"), [443, 80], "80 of the other one, and none of the tenants'");
  const gateway: RoutingHints = { className: "other", addresses: NODES, ports: [10_007], admitted: true };
  assert.equal(resolve(gateway), nameOf("tenant-7/app-7"), "an object on its port is served by it");
  await add(serviceLb("edge/secure", { created: "2026-03-01T08:00:00Z", ports: [8_443] }));
  await add(serviceLb("edge/plain", { created: "2026-04-01T08:00:00Z", ports: [8_080] }));
  assert.equal(resolve(), "service-without-port");
});

/** How many fields of Services are read to find one Service among `count` that share all addresses. */
function readsOf(count: number, portOf: (index: number) => number): number {
  let reads = 0;
  const table = new AddressTable();
  for (let index = 0; index < count; index += 1) {
    const raw = serviceLb(`tenant/app-${index}`, { created: "2026-02-01T08:00:00Z", ports: [portOf(index)] });
    const counting = new Proxy(viewService(raw as RawService, "v1"), {
      get: (view, field) => {
        reads += 1;
        return Reflect.get(view, field);
      },
    });
    table.set(`tenant/app-${index}`, counting);
  }
  reads = 0;
  const none = () => false;
  const found = matchService(INGRESS, table, {
    isOfAnotherClass: none,
    isHeld: none,
    isServing: none,
    isInUse: none,
    isConfigured: none,
  });
  assert.ok("name" in found);
  return reads;
}

test("Services that share an address are read once each, not compared by pairs", () => {
  const onTheSame = (count: number) => readsOf(count, () => 443);
  assert.ok(onTheSame(5_000) <= 2 * onTheSame(2_500) + 100, `${onTheSame(2_500)} and ${onTheSame(5_000)} reads`);
});

// MetalLB (https://metallb.io/usage/#ip-address-sharing) shares an address between Services with the same key and
// different ports, and writes one address.
test("with MetalLB's shared address, each name goes to the Service on its port, even to a younger one", async (t) => {
  const shared = (key: string, created: string, ports: readonly number[]): ApiObject => {
    const service = serviceLb(key, { created, ports, nodes: ["192.168.1.240"] });
    const annotations = { "metallb.io/allow-shared-ip": "edge", "metallb.io/ip-allocated-from-pool": "first" };
    return { ...service, metadata: { ...service.metadata, annotations } };
  };
  const ingress = shared("ingress-nginx/controller", "2026-03-01T08:00:00Z", [80, 443]);
  const git = shared("git/ssh", "2026-02-01T08:00:00Z", [22]);
  const api = shared("kafka/gateway", "2026-01-01T08:00:00Z", [9_443]);
  const { resolve } = await cluster(t, {}, git, api, ingress);
  const hints = { ...INGRESS, className: "nginx", addresses: ["192.168.1.240"] };
  assert.equal(resolve(hints), nameOf("ingress-nginx/controller"));
  assert.equal(resolve({ ...hints, ports: [9_443] }), nameOf("kafka/gateway"));
});

/** A LoadBalancer Service in a cloud, with a shared host name. */
function cloudLb(key: string, created: string, more: { readonly ip?: string; readonly annotations?: object } = {}) {
  const { metadata, spec } = serviceLb(key, { created, ports: [80, 443] }) as unknown as {
    metadata: object;
    spec: object;
  };
  const ingress = [{ hostname: "shared.lb.example.com" }, ...(more.ip === undefined ? [] : [{ ip: more.ip }])];
  const annotations = more.annotations ?? {};
  return {
    metadata: { ...metadata, annotations },
    spec,
    status: { loadBalancer: { ingress } },
  } as unknown as ApiObject;
}

const SHARED: RoutingHints = { className: "theirs", addresses: ["shared.lb.example.com"], admitted: true };
const EVIL = cloudLb("tenant/evil", "2026-05-01T08:00:00Z", {
  ip: "192.0.2.9",
  annotations: { "switchback.dev/map": "always" },
});

test("a Service with the same host name takes no names, also after a restart", async (t) => {
  const { resolve, add } = await cluster(t, {}, cloudLb("edge/lb", "2026-03-01T08:00:00Z"), EVIL);
  assert.equal(resolve(), "no-service");
  const own = { ...SHARED, addresses: ["192.0.2.9"] };
  assert.equal(resolve(own), nameOf("tenant/evil"), "an object with its own address is its own");
  assert.equal(resolve(SHARED), "load-balancer-hostname");
  await add(cloudLb("edge/lb", "2026-03-01T08:00:00Z", { annotations: { "switchback.dev/map": "always" } }));
  assert.equal(resolve(SHARED), "several-services");
  assert.equal(resolve(SHARED, nameOf("edge/lb")), nameOf("edge/lb"), "a name that it has stays");
});
