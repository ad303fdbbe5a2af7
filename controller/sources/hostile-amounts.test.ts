import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { parseConfig } from "#lib/config/parse.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { silentLogger as log } from "#lib/telemetry/log.ts";
import { NOBODY } from "#test/fakes/claim-budget.ts";
import { until } from "#test/fakes/kube-api.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { ClaimBudget } from "./claim-budget.ts";
import { customSource } from "./custom.ts";
import { gatewaySource } from "./gateway.ts";
import { ingressSource } from "./ingress-hosts.ts";
import { istioSource } from "./istio.ts";
import type { Source, View } from "./types.ts";

// Whatever kind of object a tenant creates, and how many of them: little is kept of its namespace.

const QUOTA = 250;
/** What a source may keep of the tenant's namespace, in bytes: 1,000 claims and the objects that have them. */
const MOST_BYTES = 2_000_000;
const KINDS: Readonly<Record<string, string>> = {
  "/apis/gateway.networking.k8s.io/v1": "gatewayclasses gateways listenersets httproutes",
  "/apis/networking.istio.io/v1": "gateways virtualservices",
  "/api/v1": "services",
};
const KIND_OF: Readonly<Record<string, string>> = {
  gatewayclasses: "GatewayClass",
  gateways: "Gateway",
  listenersets: "ListenerSet",
  httproutes: "HTTPRoute",
  virtualservices: "VirtualService",
  services: "Service",
};

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

function held(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

/** An API server that serves all kinds. */
function clusterWith(objects: Readonly<Record<string, Iterable<ApiObject>>>): MemoryKube {
  const api = new MemoryKube();
  for (const [path, resources] of Object.entries(KINDS)) {
    const [, root = "", version = ""] = /^(.*)\/([^/]+)$/.exec(path) ?? [];
    const verbs = ["list", "watch", "create"];
    api.documents.set(root, { versions: [{ version }] });
    api.documents.set(path, { resources: resources.split(" ").map((name) => ({ name, kind: KIND_OF[name], verbs })) });
  }
  for (const [collection, all] of Object.entries(objects)) for (const object of all) api.set(collection, object);
  return api;
}

type Start = (deps: { client: KubeClient; budget: ClaimBudget }) => Source | undefined;

/** Starts a source, and returns what it has kept of each namespace. */
async function keptBy(t: TestContext, start: Start, api: MemoryKube) {
  const budget = new ClaimBudget({ maxNamesPerNamespace: QUOTA, plan: NOBODY });
  const before = held();
  const source = start({ client: api.client, budget });
  assert.ok(source);
  const claims = new Map<string, readonly View[]>();
  let synced = false;
  t.after(() => Promise.all([source.stop(), budget.stop()]));
  source.start(
    (object, all) => {
      if (all.length === 0) claims.delete(object);
      else claims.set(object, all);
    },
    () => {
      synced = true;
    },
  );
  await until(() => synced, "the source to be synced", 60_000);
  const bytes = held() - before;
  const count = (namespace: string) =>
    [...claims.values()].flat().filter(({ from }) => from.namespace === namespace).length;
  /** What reports left-out claims, for its Event. */
  const reporter = () =>
    [...claims.values()].flat().find(({ hints }) => "code" in hints && hints.code === "too-many-claims")?.from;
  return { bytes, count, reporter };
}

const config = parseConfig({
  sources: {
    presets: ["istio-gateway", "istio-virtualservice"],
    services: { enabled: true },
  },
}).sources;
const ingresses: Start = (deps) => ingressSource({ ...deps, log });
const gateways: Start = (deps) =>
  gatewaySource({ ...deps, namespaces: { follow() {}, of: () => undefined }, config, log });
const istio: Start = (deps) => istioSource({ ...deps, config, log });
const custom: Start = (deps) => customSource({ ...deps, config, log });

const INGRESSES = "/apis/networking.k8s.io/v1/ingresses";
const GATEWAY_API = "/apis/gateway.networking.k8s.io/v1";
const ISTIO = "/apis/networking.istio.io/v1";
const created = (index: number) => new Date(1_767_225_600_000 - index * 1_000).toISOString();
const metadata = (index: number, annotations = {}) => ({
  namespace: "tenant",
  name: `crowd-${index}`,
  creationTimestamp: created(index),
  annotations,
});
const many = <T>(count: number, make: (index: number) => T) => Array.from({ length: count }, (_, index) => make(index));
const hosts = (prefix: string | number, count: number) => many(count, (host) => `${host}.crowd-${prefix}.example.com`);
const parentRefs = [{ name: "edge", namespace: "infra" }];
const listeners = (prefix: string | number, count: number) =>
  hosts(prefix, count).map((hostname, index) => ({ name: `l${index}`, port: 443, protocol: "HTTPS", hostname }));
const accepted = { conditions: [{ type: "Accepted", status: "True" }] };
const edge = {
  metadata: { namespace: "infra", name: "edge", creationTimestamp: created(1) },
  spec: {
    gatewayClassName: "edge",
    allowedListeners: { namespaces: { from: "All" } },
    listeners: listeners("edge", 64).map((one) => ({ ...one, allowedRoutes: { namespaces: { from: "All" } } })),
  },
  status: accepted,
};
const servers = (count: number) => [{ port: { number: 443 }, hosts: hosts("mesh", count).map((host) => `*/${host}`) }];
const PADDING = ",".repeat(200_000);

const CROWDS: readonly (readonly [what: string, start: Start, objects: Readonly<Record<string, ApiObject[]>>])[] = [
  [
    "100 Ingresses of 1,000 hosts",
    ingresses,
    {
      [INGRESSES]: many(100, (index) => ({
        metadata: metadata(index),
        spec: { tls: [{ hosts: hosts(index, 1_000) }] },
      })),
    },
  ],
  [
    "50 Ingresses with 200 KB of text around each name",
    ingresses,
    {
      [INGRESSES]: many(50, (index) => ({
        metadata: metadata(index, {
          "nginx.ingress.kubernetes.io/server-alias": `alias-${index}.crowd.example.com${PADDING}`,
          "kubernetes.io/ingress.class": `${index}${PADDING}`,
          "switchback.dev/target": `target-${index}${PADDING}`,
        }),
        spec: { rules: [{ host: `${index}.crowd.example.com` }] },
      })),
    },
  ],
  [
    "3,000 HTTPRoutes without hostnames, at a Gateway of 64 listeners",
    gateways,
    {
      [`${GATEWAY_API}/gateways`]: [edge],
      [`${GATEWAY_API}/httproutes`]: many(3_000, (index) => ({
        metadata: metadata(index),
        spec: { parentRefs },
        status: { parents: [{ parentRef: parentRefs[0], ...accepted }] },
      })),
    },
  ],
  [
    "300 ListenerSets and 300 Gateways of 64 listeners",
    gateways,
    {
      [`${GATEWAY_API}/gateways`]: many(300, (index) => ({
        metadata: metadata(index),
        spec: { gatewayClassName: "edge", listeners: listeners(index, 64) },
        status: accepted,
      })),
      [`${GATEWAY_API}/listenersets`]: many(300, (index) => ({
        metadata: metadata(index),
        spec: { parentRef: parentRefs[0], listeners: listeners(index, 64) },
        status: accepted,
      })),
    },
  ],
  [
    "50 Gateways and VirtualServices of Istio with 1,000 hosts",
    istio,
    {
      [`${ISTIO}/gateways`]: many(50, (index) => ({
        metadata: metadata(index),
        spec: { selector: { istio: "ingress" }, servers: servers(1_000) },
      })),
      [`${ISTIO}/virtualservices`]: many(50, (index) => ({
        metadata: metadata(index),
        spec: { gateways: [`crowd-${index}`], hosts: hosts(index, 1_000), http: [{}] },
      })),
    },
  ],
  [
    "100 Services of 1,000 names",
    custom,
    {
      "/api/v1/services": many(100, (index) => ({
        metadata: metadata(index, {
          "external-dns.alpha.kubernetes.io/hostname": `${hosts(index, 1_000).join()}${PADDING.slice(0, 50_000)}`,
        }),
        spec: { type: "LoadBalancer" },
      })),
    },
  ],
];

for (const [what, start, objects] of CROWDS) {
  test(`a tenant creates ${what}: little is kept of them`, async (t) => {
    const { bytes, count, reporter } = await keptBy(t, start, clusterWith(objects));
    assert.ok(count("tenant") <= 4 * QUOTA + 1, `${count("tenant")} claims`);
    const isCrowd = count("tenant") > 4 * QUOTA;
    assert.ok(!isCrowd || Object.keys(objects).some((path) => path.includes(`/${reporter()?.apiVersion}/`)));
    assert.ok(count("tenant") > 0);
    assert.ok(bytes <= MOST_BYTES, `${(bytes / 1e6).toFixed(1)} MB`);
  });
}
